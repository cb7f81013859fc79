package follow

import (
	"ustack/filemap/callsite"
)

// Numbers of system calls of x86-64 that do not return.
const (
	sysExit      = 60
	sysExitGroup = 231
	sysReturn    = 15 // of a signal handler
)

// aligned is what compilers align functions to.
const aligned = 16

// point is where to follow the code from.
type point struct {
	addr uint64
	state
	// fell: the instruction before leads there, and it was a call or padding after one.
	fell bool
}

// walk is code that is being followed.
type walk struct {
	code    Code
	left    int
	seen    map[uint64]value // the stack pointer there; the frame pointer if framed
	pending []point
	// framed: calls may take arguments off the stack, and paths end at them: later are where
	// they return to.
	framed bool
	later  []point

	// until is an instruction at which paths end, 0 for none. arrive is called there.
	until  uint64
	arrive func(s *state)
	// returned is called for each return, with how many bytes of arguments it takes off the
	// stack, and for each place that a table describes.
	returned func(s *state, addr uint64, taken int64)

	exits, dead  int  // paths that end the thread, or in code that nothing leads to
	open         int  // paths that lead to what is not known
	doubt        bool // see Answer
	disagree     bool
	instructions int
}

// run follows the code from a point.
func (w *walk) run(from point) {
	w.seen = make(map[uint64]value)
	w.pending = append(w.pending, from)
	w.all()
}

// all follows all paths that are pending.
func (w *walk) all() {
	for first := true; len(w.pending) > 0; first = false {
		p := w.pending[len(w.pending)-1]
		w.pending = w.pending[:len(w.pending)-1]
		w.path(&p, first)
	}
}

// compared is the register in which paths that meet must agree.
func (w *walk) compared() uint8 {
	if w.framed {
		return rbp
	}
	return rsp
}

// path follows one path to its end. first: it begins at p by itself.
func (w *walk) path(p *point, first bool) {
	for ; ; first = false {
		if !first && w.ends(p) {
			return
		}
		if at, ok := w.seen[p.addr]; ok {
			w.disagree = w.disagree || at != p.regs[w.compared()]
			return
		}
		if w.instructions >= w.left {
			w.open++
			return
		}
		w.instructions++
		w.seen[p.addr] = p.regs[w.compared()]
		e, ok := callsite.Decode(w.code.At(p.addr), p.addr)
		if !ok {
			w.dead++
			return
		}
		if !w.next(p, &e) {
			return
		}
	}
}

// ends reports whether a path ends before it comes to an instruction.
func (w *walk) ends(p *point) bool {
	if p.addr == w.until && w.arrive != nil {
		w.arrive(&p.state)
		return true
	}
	if w.code.Described(p.addr) == nil {
		return false
	}
	if p.fell {
		w.dead++
	} else {
		w.returned(&p.state, p.addr, 0)
	}
	return true
}

// next goes on to the next instruction. It is false if the path ends.
func (w *walk) next(p *point, e *callsite.Effect) bool {
	switch e.Kind {
	case callsite.Jump:
		if e.Conditional {
			w.branch(p, e.Target)
			return w.fall(p, e, false)
		}
		p.addr, p.fell = e.Target, false
		return true
	case callsite.JumpIndirect:
		w.open++
		return false
	case callsite.Call:
		if e.Target == e.End() { // where am I: the address is taken off the stack again
			p.push(value{})
			return w.fall(p, e, false)
		}
		fallthrough
	case callsite.CallIndirect:
		p.called()
		if w.framed {
			return w.postpone(p, e)
		}
		return w.fall(p, e, true)
	}
	switch e.Op {
	case callsite.Halt:
		w.dead++
		return false
	case callsite.Return:
		w.returned(&p.state, 0, e.N)
		return false
	case callsite.System:
		if a := p.regs[rax]; a.sort == number && (a.n == sysExit || a.n == sysExitGroup || a.n == sysReturn) {
			if a.n == sysReturn {
				w.open++
			}
			w.exits++
			return false
		}
	}
	p.apply(e)
	return w.fall(p, e, p.fell && e.Op == callsite.Nothing)
}

// postpone ends a path at a call, and notes where it goes on if that returns.
func (w *walk) postpone(p *point, e *callsite.Effect) bool {
	p.moveStack(value{sort: fresh, off: int64(e.Addr)})
	switch {
	case !w.fall(p, e, true):
	case len(w.later) >= maxPending:
		w.open++
	default:
		w.later = append(w.later, *p)
	}
	return false
}

// branch notes a place that a conditional jump leads to.
func (w *walk) branch(p *point, to uint64) {
	if at, ok := w.seen[to]; ok {
		w.disagree = w.disagree || at != p.regs[w.compared()]
		return
	}
	if len(w.pending) >= maxPending {
		w.open++
		return
	}
	w.pending = append(w.pending, point{addr: to, state: p.state})
}

// fall goes on to what follows an instruction. It is false if another function begins
// there: then the instruction before never returns. after: it is a call, or padding
// after one.
func (w *walk) fall(p *point, e *callsite.Effect, after bool) bool {
	next := e.End()
	padded := e.Kind == callsite.Straight && e.Op == callsite.Nothing && after && next%aligned == 0
	if (padded || w.code.Begins(next)) && (next != w.until || w.arrive == nil) {
		w.dead++
		return false
	}
	w.doubt = w.doubt || e.Kind != callsite.Straight && after && w.doubtful(next)
	p.addr, p.fell = next, after
	return true
}

// doubtful reports whether a function that is not known can begin at an address.
func (w *walk) doubtful(addr uint64) bool { return addr%aligned == 0 && !w.code.Complete() }
