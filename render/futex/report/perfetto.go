//go:build !device

package report

import (
	"fmt"
	"io"

	"ustack/filemap/symbol"
	"ustack/render/futex"
	"ustack/render/perfetto"
	"ustack/render/profile"
	"ustack/tracefs"
)

// Perfetto writes each call that waits as a slice of its thread, with its stack,
// and an arrow from the call that ended it, if that is known. Waits that have not
// ended are slices without an end. The report must be of a, made with the View,
// whose Top must be 0.
func Perfetto(w io.Writer, a *futex.Analysis, r *futex.Report, v futex.View, opt perfetto.Options) error {
	t := timeLine{out: perfetto.NewWriter(w, opt)}
	if err := a.WaitCalls(r, v, t.call, t.lost); err != nil {
		return err
	}
	return t.out.End()
}

type timeLine struct {
	out       *perfetto.Writer
	flows     uint64
	frames    []profile.Frame
	functions []symbol.Function
	notes     []perfetto.Note
}

func (t *timeLine) note(key string, value any) {
	t.notes = append(t.notes, perfetto.Note{Key: key, Value: value})
}

// call writes a call that waits.
func (t *timeLine) call(c *futex.WaitCall) error {
	e := perfetto.Event{Type: perfetto.Begin, Time: c.From, Category: "wait", Name: waitName(c)}
	if c.Result == futex.NoReturn {
		e.Type = perfetto.Instant
	}
	e.Track = t.thread(c.PID, c.TID, c.Comm, c.From)
	t.notes = t.notes[:0]
	t.about(c)
	t.comm(e.Track, c.Comm)
	t.stack(&e, c.Stack, c.Missing)
	e.Notes = t.notes
	t.out.Event(&e)
	if c.Result == futex.NoReturn || c.Result == futex.Open {
		return t.out.Err()
	}
	end := perfetto.Event{Type: perfetto.End, Time: c.To, Track: e.Track}
	if c.Waker.TID != 0 {
		end.FlowEnd = t.wake(c, e.Name)
	}
	t.out.Event(&end)
	return t.out.Err()
}

// waitName returns how a call is called: by its lock, and by what became of it
// if it did not wait for that.
func waitName(c *futex.WaitCall) string {
	name := "futex"
	switch {
	case c.Before:
		name = "futex (its beginning is not in the trace)"
	case c.Lock != nil:
		name = lockLabel(c.Lock)
	case c.HasLock:
		name = fmt.Sprintf("futex %#x", c.Address)
	}
	if !c.Slept() {
		name += fmt.Sprintf(" (%s)", c.Result)
	}
	return name
}

// resultOf returns how a call ended.
func resultOf(c *futex.WaitCall) string {
	if c.Before && c.Result == futex.Woken {
		return "returned 0: a wait, or a wakeup without a waiter"
	}
	return c.Result.String()
}

// about adds what there is to say of a call.
func (t *timeLine) about(c *futex.WaitCall) {
	switch {
	case c.Lock != nil && c.Lock.Futexes > 1: // the row of the report
		t.note("lock", perfetto.Address(c.Lock.Address))
	case c.HasLock:
		t.note("lock", perfetto.Address(c.Address))
	}
	if l := c.Lock; l != nil {
		t.note("kind", l.Kind.String())
		if l.File != "" {
			t.note("file", l.File+late(l))
			t.note("offset", perfetto.Address(l.Offset))
		}
		if l.Shared && !l.Local && l.File == "" {
			t.note("maybe_shared", true)
		}
	}
	t.note("result", resultOf(c))
	if c.Before {
		t.note("no_beginning", true)
	}
	if c.Resumed {
		t.note("resumed", true)
	}
	if k := &c.Waker; k.TID != 0 {
		t.note("waker", int64(k.TID))
		t.note("waker_comm", k.Comm)
		t.note("waker_sure", k.Sure)
	}
}

// stack puts a stack to an event, or why there is none.
func (t *timeLine) stack(e *perfetto.Event, s *futex.Stack, missing string) {
	if s != nil {
		t.frames, e.Cut = profile.KeptFrames(t.frames[:0], s, "")
		t.functions = profile.KeptFunctions(t.functions[:0], s)
		e.Stack, e.Functions = t.frames, t.functions
		return
	}
	if missing == "" {
		missing = "no stack in the trace"
	}
	t.note("no_stack", missing)
}

func (t *timeLine) thread(pid, tid int32, comm string, at tracefs.Time) perfetto.Track {
	return t.out.Thread(perfetto.Thread{PID: pid, TID: tid, Comm: comm}, at)
}

// comm says how a thread was called, if its track has another name.
func (t *timeLine) comm(track perfetto.Track, comm string) {
	if comm != t.out.Name(track) {
		t.note("comm", comm)
	}
}

// wake writes the call that ended another one, and returns the arrow between them.
func (t *timeLine) wake(c *futex.WaitCall, name string) uint64 {
	k := &c.Waker
	t.flows++
	e := perfetto.Event{Type: perfetto.Instant, Time: min(k.At, c.To), Category: "wake", Name: "wake: " + name, Flow: t.flows}
	e.Track = t.thread(k.PID, k.TID, k.Comm, e.Time)
	t.notes = t.notes[:0]
	t.note("woken", int64(c.TID))
	t.note("woken_comm", c.Comm)
	t.note("sure", k.Sure)
	t.comm(e.Track, k.Comm)
	t.stack(&e, k.Stack, "")
	e.Notes = t.notes
	t.out.Event(&e)
	return t.flows
}

func (t *timeLine) lost(l *futex.LostTime) error {
	t.out.Gap(l.Buffer, l.CPU, l.From, l.To, l.Records)
	return t.out.Err()
}
