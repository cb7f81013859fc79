package unwind

import (
	"cmp"
	"debug/elf"
	"sync"

	"ustack/filemap/unwind/table"
)

// Unwinder finds callers. It keeps the tables of files, which all its Files
// share; the methods can be called from several goroutines.
type Unwinder struct {
	mu      sync.Mutex
	w       walker
	files   map[string]*File
	filesMu sync.Mutex // of files, which a Space may add to while a stack is unwound
	limit   int
	most    int // files that are open at once
	opened  int
	tick    uint64
	rested  uint64 // the tick of the last Rest
	credit  credit // for following code of all files
	// forStack is how many instructions may be followed for the stack at hand.
	forStack int
	cold     int // locations that were looked up since the last trim

	hot    [1 << hotBits]hot
	pages  [maxPages]page
	across []byte // code that lies in two pages
}

// DefaultMemory is how many bytes of tables New(0) keeps.
const DefaultMemory = 24 << 20

// New makes an Unwinder that keeps about so many bytes of tables; 0 is
// DefaultMemory.
func New(memory int) *Unwinder {
	if memory <= 0 {
		memory = DefaultMemory
	}
	return &Unwinder{files: make(map[string]*File), limit: memory, most: roomForFiles(), credit: credit{left: allBurst}}
}

// hot is the step that was last used in a slot.
type hot struct {
	file *File
	key  uint64
	step *step
}

const (
	hotBits       = 11
	defaultFrames = 512
	maxSignals    = 16 // of handlers within handlers in one stack
)

// walker is one stack that is being unwound.
type walker struct {
	u     *Unwinder
	in    *Input
	regs  Registers
	arm64 bool
	fp    uint8
	spn   uint8
	keeps uint64 // registers that functions keep, as bits

	pc      uint64
	exact   bool
	at      *step // how to unwind pc
	place   place
	sp0     uint64 // the stack pointer of the first frame
	floor   uint64 // frames end above this address
	high    uint64 // the highest address that was looked at
	last    Mapping
	signals int
	end     End
	buf     [8]byte
	values  [table.Registers]uint64
	called  Called    // of the frame at hand, if it is code of a Runtime
	after   Registers // of its caller
}

// Unwind appends the frames of a thread, the innermost first. There are none if
// the program counter is not known, or is not in code.
func (u *Unwinder) Unwind(in *Input, frames []Frame) ([]Frame, End) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tick++
	u.forStack = stackMost
	w := &u.w
	w.u, w.in = u, in
	frames, end := w.walk(frames)
	w.in, w.last, w.place, w.called = nil, Mapping{}, place{}, Called{} // the stack is the caller's
	if w.high >= w.sp0 && w.high > 0 {
		end.Used = w.high + 8 - w.sp0
	}
	return frames, end
}

// begin prepares for a machine.
func (w *walker) begin() bool {
	w.regs, w.high, w.signals, w.floor, w.last = w.in.Regs, 0, 0, 0, Mapping{}
	pc := uint8(AMD64PC)
	switch w.in.Machine {
	case elf.EM_X86_64:
		w.arm64, w.fp, w.spn = false, AMD64FP, AMD64SP
		w.keeps = 1<<3 | 1<<6 | 0xf<<12
	case elf.EM_AARCH64:
		w.arm64, w.fp, w.spn = true, ARM64FP, ARM64SP
		w.keeps = 0x7ff << 19
		pc = ARM64PC
	default:
		w.end = End{Why: NoInformation, Detail: "an unknown machine"}
		return false
	}
	var ok bool
	if w.pc, ok = w.regs.Get(pc); !ok {
		w.end = End{Why: UnknownRegister, Register: pc}
		return false
	}
	w.exact = true
	w.sp0, ok = w.regs.Get(w.spn)
	if !ok {
		w.sp0 = w.in.Stack.At
	}
	w.floor = w.sp0
	return true
}

// place is where an address of code lies.
type place struct {
	file   *File
	offset uint64
	jit    bool
	// runtime has the code, nil if it is none of a Runtime.
	runtime Runtime
}

// find finds the code at an address. ok is false if there is none.
func (w *walker) find(addr uint64) (p place, ok bool) {
	m := &w.last
	if addr < m.Start || addr >= m.End {
		var ok bool
		if *m, ok = w.in.Space.Find(addr); !ok || !m.Exec || addr < m.Start || addr >= m.End {
			*m = Mapping{}
			return p, false
		}
	}
	return place{m.File, addr - m.Start + m.Offset, m.JIT, m.Runtime}, m.File != nil || m.JIT || m.Runtime != nil
}

func (w *walker) walk(frames []Frame) ([]Frame, End) {
	limit := w.in.Max
	if limit <= 0 {
		limit = defaultFrames
	}
	if !w.begin() {
		return frames, w.end
	}
	var ok bool
	if w.place, ok = w.find(w.pc); !ok || w.place.runtime != nil {
		return frames, End{Why: NoMap, Addr: w.pc}
	}
	how := Given
	w.at = w.step()
	for n := 0; ; n++ {
		if n == limit {
			return frames, w.ended(End{Why: Limit})
		}
		s := w.at
		f := Frame{PC: w.pc, Exact: w.exact, File: w.place.file, Offset: w.place.offset, How: how, Trampoline: s.trampoline}
		f.SP, _ = w.regs.Get(w.spn)
		if w.place.runtime != nil {
			f.Code = w.called.Code
		}
		frames = append(frames, f)
		file := w.place.file
		if how, ok = w.caller(s); !ok {
			if w.end.File == nil {
				w.end.File = file
			}
			return frames, w.end
		}
	}
}

// ended returns an end in the file of the frame at hand.
func (w *walker) ended(e End) End {
	e.File = w.place.file
	return e
}

// step returns how to unwind the frame at hand.
func (w *walker) step() *step {
	if w.place.file == nil {
		return &jitStep
	}
	w.place.file.used = w.u.tick
	key := w.place.offset << 1
	if w.exact {
		key |= 1
	}
	const spread = 0x9e3779b97f4a7c15
	h := &w.u.hot[((key^w.place.file.number<<48)*spread)>>(64-hotBits)]
	if h.file != w.place.file || h.key != key {
		s := w.place.file.step(w.place.offset, w.exact)
		if s.passing {
			return s
		}
		*h = hot{w.place.file, key, s}
	}
	return h.step
}

// caller steps to the caller of the frame at hand. If ok is false, w.end says
// why there is none.
func (w *walker) caller(s *step) (how How, ok bool) {
	var to uint64
	switch s.kind {
	case byRules:
		if how = s.how; s.followed {
			to, ok = w.byCode(s)
		} else {
			to, ok = w.byRules(s)
		}
	case bySignal:
		to, ok = w.bySignal()
		how = Signal
	case byFramePointer:
		to, ok = w.byFramePointer()
		how = FramePointer
	case byGo:
		to, ok = w.byGo(s)
		how = GoTable
	case byRuntime:
		to, ok = w.byRuntime()
		how = cmp.Or(w.called.How, VirtualMachine)
	default:
		w.end = s.end
	}
	if !ok {
		return how, false
	}
	interrupted := s.kind == bySignal || s.kind == byRules && s.rules.Signal
	if interrupted {
		how = Signal
	}
	return how, w.enter(to, interrupted)
}

// enter makes an address the frame at hand, if it is proven to be one.
func (w *walker) enter(to uint64, interrupted bool) bool {
	if to == 0 && !interrupted {
		w.end = End{Why: Root}
		return false
	}
	p, ok := w.find(to)
	if !ok {
		w.end = w.notCode(to)
		return false
	}
	if p.runtime != nil {
		return w.enterRuntime(to, p, interrupted)
	}
	w.pc, w.place, w.exact = to, p, interrupted
	s := w.step()
	if p.file != nil && !interrupted {
		switch {
		case s.called, s.root:
		case s.returned: // signal handlers return there, or contexts begin
			w.exact = true
			s = w.step()
		case p.file.image == nil:
			w.end = End{Why: NoMap, Addr: to, Detail: s.end.Detail}
			return false
		default:
			w.end = End{Why: Contradiction, Addr: to, Detail: "no call stands before the return address"}
			return false
		}
	}
	w.at = s
	if w.arm64 && !interrupted {
		w.regs.forget(ARM64LR)
	}
	return true
}

// notCode returns why an address is no return address.
func (w *walker) notCode(addr uint64) End {
	m, ok := w.in.Space.Find(addr)
	if ok && m.Exec {
		return End{Why: NoMap, Addr: addr}
	}
	return End{Why: Contradiction, Addr: addr, Detail: "the return address is not in code"}
}
