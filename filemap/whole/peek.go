package whole

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/filemap/blocked"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/syscalls"
)

// Why what was read of a thread that waits is no stack of a record.
var (
	// errNotIt: the thread is not proven to be in the call of the record.
	errNotIt = errors.New("the thread is not in the call of the record")
	// errNoMore: the kernel's stack says as much.
	errNoMore = errors.New("the kernel's stack says as much")
)

// in reports whether a thread was in the call of a record when its stack was read.
func (w *wait) in(s *blocked.Stack) bool {
	if w.sleep {
		return w.sleepsIn(s)
	}
	pc, _ := s.Regs.PC()
	return s.ABI == perf.ABI64 && s.Call == unix.SYS_FUTEX && asked(s) == w.call && pc == w.pc && s.From > w.at
}

// asked is what the thread asks of the futex in which it waits.
func asked(s *blocked.Stack) syscalls.Futex {
	var args syscalls.Args
	for i, arg := range [...]syscalls.Arg{syscalls.Uaddr, syscalls.Op, syscalls.ArgVal, syscalls.Utime, syscalls.Uaddr2} {
		args.Set(arg, s.Args[i])
	}
	var e syscalls.Event
	e.Enter(syscalls.FutexOp, &args)
	return e.Futex
}

// unwind unwinds what was read of the thread of a wait that has made no other call between.
// short: of the stack, more has to be read to find all.
func (l *Lookout) unwind(w *wait, s *blocked.Stack) (frames []tracefs.Frame, short bool, err error) {
	if !w.in(s) {
		return nil, false, errNotIt
	}
	if err := l.opt.Settle(s.To); err != nil {
		return nil, false, err
	}
	if w.any && !l.opt.Same(s.TID, w.since, w.at) || !l.opt.Same(s.TID, w.at, s.To) {
		return nil, false, errNotIt
	}
	st := l.opt.Stage
	pid, then, ok := st.opt.Space(s.TID, w.at)
	again, sp, also := st.opt.Space(s.TID, s.From)
	if !ok || !also {
		return nil, false, errNoMore
	}
	if pid != s.PID || again != pid || then != sp {
		return nil, false, errNotIt
	}
	list, end := st.peeked(s, sp)
	found := st.places(sp, s.From)
	if len(list) == 0 || !stayed(found, sp, w.at) || end.Why == unwind.UnknownRegister && w.begins(list) {
		return nil, false, errNoMore
	}
	if at, ok := w.held.Batch.Exact(&w.held.Batch.Records[w.record]); ok {
		st.named(w.tid, at, st.functions())
	}
	return list, end.Why == unwind.Short, nil
}

// begins reports whether the kernel's stack has more than a list, which is how it begins.
// The kernel has the frame pointer, which is unknown for a thread that waits.
func (w *wait) begins(list []tracefs.Frame) bool {
	b := &w.held.Batch
	kernel, text := b.StackFrames(&b.Records[w.record])
	if len(kernel) <= len(list) {
		return false
	}
	for i := range list {
		if kernel[i].Address(text) != list[i].Addr {
			return false
		}
	}
	return true
}

// peeked unwinds what was read of a thread: s.frames is what was found.
func (s *Stage) peeked(p *blocked.Stack, sp *space.Space) (list []tracefs.Frame, end unwind.End) {
	in := unwind.Input{Machine: machine(&p.Regs), Max: maxFrames}
	in.Regs = registers(&p.Regs)
	in.Stack.At, _ = p.Regs.SP()
	in.Stack.Bytes = p.Memory
	in.Space = &view{s: s, pid: p.PID, space: sp, at: p.From, until: p.To}
	s.frames, end = s.unwinder.Unwind(&in, s.frames[:0])
	stop := unwind.StopOf(end.Why)
	for i := range s.frames {
		f := &s.frames[i]
		how := tracefs.ByBlocked
		if f.How == unwind.Signal {
			how = tracefs.BySignal // its address is none of a return
		}
		out := tracefs.Frame{Addr: f.PC, HasAddr: true, Form: tracefs.FormPlain}
		out.SetUnwound(how, tracefs.NoStop)
		if i == len(s.frames)-1 {
			out.SetUnwound(how, stop)
		}
		list = append(list, out)
	}
	return slices.Clip(list), end
}

// places returns where the frames that were found are at a time.
func (s *Stage) places(sp *space.Space, at tracefs.Time) []held {
	frames := make([]held, len(s.frames))
	for i := range s.frames {
		f := &s.frames[i]
		frames[i] = held{pc: f.PC, how: f.How, code: f.Code}
		if place, ok := sp.Lookup(f.PC, at); ok {
			frames[i].place = place
		}
	}
	return frames
}

// registers returns the known registers for the unwinder.
func registers(from *perf.Registers) (to unwind.Registers) {
	for n := range perf.MaxRegisters {
		if v, ok := from.Get(n); ok {
			to.Set(uint8(n), v)
		}
	}
	return to
}
