package callsite

import (
	"encoding/binary"
	"math"
)

// Start is a call of the function that a thread begins with. Both numbers are
// counted from what the thread was given when it began.
type Start struct {
	// Head is where the head of the thread's robust list is, which the same code
	// registers with the kernel (set_robust_list(2)).
	Head int64
	// Pointer is where the pointer is that the call goes by.
	Pointer int64
}

// StartCall reports whether the call that returns to ret calls the function that
// a thread begins with. code is all of the calling function, x86-64 and at addr.
// It must be like glibc's start_thread (nptl/pthread_create.c):
//
//   - first of all it puts its argument into a place of its own frame, into which
//     it puts nothing else;
//   - it makes the system call set_robust_list with an address that is counted
//     from what is there;
//   - the pointer that it calls by is counted from the same.
//
// So the address of the thread's robust list in the kernel gives the address of the
// pointer. height is how far above the stack pointer the upper end of the frame is
// before an instruction; ok is false if unknown.
func StartCall(code []byte, addr, ret uint64, height func(addr uint64) (n int64, ok bool)) (Start, bool) {
	w := starter{height: height, ret: ret, targets: make(map[uint64]bool), lowest: math.MaxUint64}
	if !eachX86(code, addr, w.target) || !w.enters(code, addr) || !eachX86(code, addr, w.next) {
		return Start{}, false
	}
	return w.start, w.registered && w.called
}

// eachX86 decodes instructions until f is false of one.
func eachX86(code []byte, addr uint64, f func(d *x86, s *Step) bool) bool {
	for len(code) > 0 {
		d := x86{code: code[:min(len(code), longestX86)]}
		s, n, ok := d.decode(addr)
		if !ok || !f(&d, &s) {
			return false
		}
		code, addr = code[n:], addr+uint64(n)
	}
	return true
}

// Registers by their numbers in instructions.
const (
	rax = 0
	rcx = 1
	rsp = 4
	rsi = 6
	rdi = 7
	r11 = 11
)

// starter follows what a function does with its argument.
type starter struct {
	height  func(uint64) (int64, bool)
	ret     uint64
	targets map[uint64]bool // of jumps
	lowest  uint64          // of them

	slot  int64  // where the argument is kept, down from the upper end of the frame
	store uint64 // the instruction that puts it there
	regs  [16]value

	start              Start
	registered, called bool
}

// value is a register's value, as far as it is known.
type value struct {
	is valueKind
	n  int64
}

type valueKind uint8

const (
	unknown  valueKind = iota
	constant           // n
	counted            // n from the argument
)

// target notes where jumps lead. A jump table may lead to anywhere.
func (w *starter) target(_ *x86, s *Step) bool {
	if s.Kind == Jump {
		w.targets[s.Target] = true
		w.lowest = min(w.lowest, s.Target)
	}
	return s.Kind != JumpIndirect
}

// enters looks for the instruction that puts the argument into its place. Before
// it, registers are pushed and room is made, and it is never done again.
func (w *starter) enters(code []byte, addr uint64) (ok bool) {
	eachX86(code, addr, func(d *x86, s *Step) bool {
		push := !d.other && !d.escaped && d.op&^7 == 0x50
		room := !d.other && !d.escaped && d.wide && (d.op == 0x81 || d.op == 0x83) && d.rm == 0xec // sub $n, %rsp
		endbr := d.escaped && d.op == 0x1e && d.rm == 0xfa
		switch {
		case s.Addr >= w.lowest || s.Kind != Straight:
			return false
		case push, room, endbr:
			return true
		case d.plain() && d.op == 0x89 && d.wide && d.reg() == rdi:
			m, is := d.memory()
			n, known := w.height(s.Addr)
			w.slot, w.store = n-m.disp, s.Addr
			ok = is && m.base == rsp && !m.index && known && w.slot >= 16 // below the return address
		}
		return false
	})
	return ok
}

// next follows one instruction. It is false if nothing can be known any more.
func (w *starter) next(d *x86, s *Step) bool {
	if d.vex || !w.keeps(d, s) {
		return false
	}
	if w.targets[s.Addr] {
		w.regs = [16]value{}
	}
	switch s.Kind {
	case Jump:
		return true
	case Call, CallIndirect:
		if s.End() == w.ret {
			w.start.Pointer, w.called = w.pointer(d, s)
		}
		w.regs = [16]value{}
		return true
	}
	if !d.plain() || d.escaped && d.op != 0x05 {
		w.regs = [16]value{}
		return true
	}
	if d.escaped {
		return w.syscall()
	}
	w.moves(d, s)
	return true
}

// widest is the largest operand that an instruction has.
const widest = 64

// keeps reports whether an instruction leaves the argument in its place.
func (w *starter) keeps(d *x86, s *Step) bool {
	n, known := w.height(s.Addr)
	if s.Kind == Call || s.Kind == CallIndirect {
		return known && n >= w.slot // the stack pointer is below it
	}
	m, ok := d.memory()
	if !ok || m.base != rsp || s.Addr == w.store {
		return true
	}
	at := n - m.disp
	apart := at <= w.slot-8 || at >= w.slot+widest
	return known && !m.index && (apart || d.loads() && at == w.slot)
}

// pointer returns where the pointer is that an instruction calls by.
func (w *starter) pointer(d *x86, s *Step) (int64, bool) {
	m, ok := d.memory()
	if !ok || s.Kind != CallIndirect || !d.plain() || m.base < 0 || m.index || d.reg() != 2 {
		return 0, false
	}
	base := w.regs[m.base]
	return base.n + m.disp, base.is == counted
}

// set_robust_list(2) of x86-64, and the size of struct robust_list_head.
const (
	setRobustList  = 273
	robustListHead = 24
)

// syscall is false if the function registers two lists.
func (w *starter) syscall() bool {
	head := w.regs[rdi]
	if w.regs[rax] == (value{constant, setRobustList}) {
		if w.registered || head.is != counted || w.regs[rsi] != (value{constant, robustListHead}) {
			return false
		}
		w.start.Head, w.registered = head.n, true
	}
	w.regs[rax], w.regs[rcx], w.regs[r11] = value{}, value{}, value{}
	return true
}

// moves follows what an instruction does to registers: some instructions are
// known, after all others nothing is.
func (w *starter) moves(d *x86, s *Step) {
	m, isMemory := d.memory()
	var to *value
	switch {
	case d.op == 0x89, d.op == 0x31: // mov, xor to what ModRM says
		if isMemory {
			return
		}
		to = &w.regs[d.operand()]
		was := w.regs[d.reg()]
		*to = value{}
		if d.op == 0x89 && d.wide {
			*to = was
		}
	case d.op == 0x8b: // mov to a register
		n, known := w.height(s.Addr)
		to = &w.regs[d.reg()]
		*to = value{}
		if d.loads() && isMemory && m.base == rsp && !m.index && known && n-m.disp == w.slot {
			*to = value{counted, 0}
		}
	case d.op == 0x8d: // lea
		from := value{}
		if isMemory && m.base >= 0 && !m.index && d.wide && w.regs[m.base].is == counted {
			from = value{counted, w.regs[m.base].n + m.disp}
		}
		w.regs[d.reg()] = from
	case d.op&^7 == 0xb8: // mov of a number
		to = &w.regs[int(d.op&7)|int(d.rex&1)<<3]
		*to = value{}
		if !d.wide {
			*to = value{constant, int64(binary.LittleEndian.Uint32(d.code[d.n-4:]))}
		}
	case (d.op == 0x80 || d.op == 0x83) && d.rm>>3&7 == 7, d.op == 0x84, d.op == 0x85: // cmp, test
	default:
		w.regs = [16]value{}
	}
}

// memoryOperand is base + disp; base is -1 if that is no register.
type memoryOperand struct {
	base  int
	index bool // there is one, too
	disp  int64
}

// memory returns the operand in memory; ok is false if there is none.
func (d *x86) memory() (m memoryOperand, ok bool) {
	mod, low := d.rm>>6, d.rm&7
	if d.at == 0 || mod == 3 {
		return m, false
	}
	rest := d.code[d.at+1:]
	m.base = int(low) | int(d.rex&1)<<3
	if low == 4 {
		sib := rest[0]
		rest = rest[1:]
		m.base = int(sib&7) | int(d.rex&1)<<3
		m.index = sib>>3&7 != 4 || d.rex&2 != 0
		low = sib & 7
	}
	switch {
	case mod == 1:
		m.disp = int64(int8(rest[0]))
	case mod == 2:
		m.disp = int64(int32(binary.LittleEndian.Uint32(rest)))
	case low == 5: // a number, or an address counted from this one
		m.base = -1
	}
	return m, true
}

// plain reports whether an instruction has no prefix but REX.
func (d *x86) plain() bool { return !d.other && !d.op16 && !d.addr32 && !d.vex }

// loads reports whether it only loads a register of 64 bits.
func (d *x86) loads() bool { return d.plain() && !d.escaped && d.op == 0x8b && d.wide }

// reg returns the register of ModRM that is never memory, operand the other
// one.
func (d *x86) reg() int     { return int(d.rm>>3&7) | int(d.rex&4)<<1 }
func (d *x86) operand() int { return int(d.rm&7) | int(d.rex&1)<<3 }
