package resolve

import (
	"path"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// Reach is how far stacks go.
type Reach struct {
	// Stacks counts stacks with a frame, Unwound the ones among them that ustack has
	// unwound. The others are the kernel's, which does not say where a stack is
	// complete.
	Stacks, Unwound int64
	// Application counts stacks with a frame of code that is in no C library,
	// dynamic linker or vDSO; Root the ones that are known to be complete.
	Application, Root int64
	// End is the name of the file in which most cut stacks end, "" if there are none
	// or it is unknown; Ends is how many do. A stack is cut if ustack has unwound it
	// and it is not complete, or if it is the kernel's and does not reach application
	// code.
	End  string
	Ends int64
}

// Far is how far one stack goes.
type Far struct {
	Unwound, Application, Root bool
	// Last is the file of the last frame, nil if it has none.
	Last *filemap.File
}

// others reports whether a stack is cut (see Reach.End).
func (f *Far) others() bool {
	if f.Unwound {
		return !f.Root
	}
	return !f.Application
}

// Reaches counts stacks by how far they go. Its zero value has none.
type Reaches struct {
	sum   Reach
	named bool // a frame had a file
	ends  map[*filemap.File]int64

	// last is the file in which the last stacks have ended, run how many did.
	last *filemap.File
	run  int64
}

// maxEnds bounds the files in which stacks are counted to end.
const maxEnds = 1 << 12

// Add adds n stacks.
func (r *Reaches) Add(f Far, n int64) {
	s := &r.sum
	s.Stacks += n
	if f.Unwound {
		s.Unwound += n
	}
	if f.Application {
		s.Application += n
	}
	if f.Root {
		s.Root += n
	}
	r.named = r.named || f.Application || f.Last != nil
	if !f.others() {
		return
	}
	if f.Last != r.last {
		r.endRun()
		r.last = f.Last
	}
	r.run += n
}

// endRun counts the stacks that have ended in one file in a row.
func (r *Reaches) endRun() {
	if r.run == 0 {
		return
	}
	if r.ends == nil {
		r.ends = make(map[*filemap.File]int64)
	}
	if _, ok := r.ends[r.last]; ok || len(r.ends) < maxEnds {
		r.ends[r.last] += r.run
	}
	r.run = 0
}

// Sum returns how far the stacks go, nil if there are none or none of them has a
// file.
func (r *Reaches) Sum() *Reach {
	if !r.named {
		return nil
	}
	r.endRun()
	out, names := r.sum, make(map[string]int64)
	for f, n := range r.ends {
		if f == nil {
			names[""] += n
		} else {
			names[path.Base(f.Path)] += n
		}
	}
	for name, n := range names {
		if n > out.Ends || n == out.Ends && name < out.End {
			out.End, out.Ends = name, n
		}
	}
	return &out
}

// Application reports whether a frame with an attribution is code of a program.
func (o *Attribution) Application() bool {
	if o.File != nil {
		return o.File.Application()
	}
	return o.Memory != nil && (o.Memory.Exec || o.Memory.Code != nil) && o.Reason != filemap.VDSO && o.Reason != filemap.VMAOffset
}

// farOf returns how far a stack with a frame goes.
func farOf(frames []tracefs.Frame, out []Attribution) Far {
	last := len(frames) - 1
	how, _ := frames[0].Unwound()
	_, stop := frames[last].Unwound()
	f := Far{Unwound: how != tracefs.ByKernel, Root: stop == tracefs.AtRoot, Last: out[last].File}
	for i := range out {
		if out[i].Application() {
			f.Application = true
			break
		}
	}
	return f
}

// waits reports whether the stacks of waits are counted apart. Where some inputs have no
// records of events, it must not depend on the input.
func (o *Options) waits() bool { return o.Stitch || o.Waits }

// waitEntry reports whether an event is the entry into a futex call that can wait.
func waitEntry(h *Pending, rec *tracefs.Record) bool {
	if e := h.Call(rec); e != nil {
		return !e.Exit && e.Futex.Cmd.Waits() && futexCall(e.Call)
	}
	if rec.Origin != 0 {
		return rec.Flags&tracefs.CanWait != 0
	}
	return syscalls.EntersWait(h.Text[rec.Body:rec.End])
}

// futexCall reports whether a call is one of the futex family.
func futexCall(c syscalls.Call) bool { return c != syscalls.Other && c != syscalls.RestartSyscall }

// farOf returns how far a stack goes, nil if it has no frame, until the next call.
func (r *tally) farOf(h *Pending, i int) *Far {
	out, res := h.StackAttributions(i)
	frames, _ := h.StackFrames(&h.Records[i])
	switch {
	case res != nil && !res.private:
		return r.farOfShared(res, frames)
	case len(out) == 0:
		return nil
	}
	r.far = farOf(frames, out)
	return &r.far
}

// farOfShared returns how far the stacks of a template go, nil if they have no frame.
func (r *tally) farOfShared(res *Result, frames []tracefs.Frame) *Far {
	if len(frames) == 0 {
		return nil
	}
	if !res.looked {
		res.far, res.looked = farOf(frames, res.Attributions), true
	}
	return &res.far
}

// Words for the stacks that Totals.Reach is about.
const (
	OfWaits   = "waits"   // of futex calls that can wait
	OfUnwound = "unwound" // of those that ustack has unwound
	OfAll     = "all"
)

// Reach returns how far the stacks of waits go. If it is unknown which stacks these
// are, it is about the stacks that ustack has unwound, as it unwinds waits only,
// and if there are none, about all. It is nil if no frame of them has a file.
func (t *Totals) Reach() (reach *Reach, of string) {
	switch {
	case t.waits.sum.Stacks > 0:
		return t.waits.Sum(), OfWaits
	case t.unwound.sum.Stacks > 0:
		return t.unwound.Sum(), OfUnwound
	}
	return t.all.Sum(), OfAll
}
