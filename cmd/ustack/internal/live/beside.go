package live

import (
	"errors"
	"math"

	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/instance"
	"ustack/tracefs/raw"
)

// rawStacks are the raw user stacks of the events that are traced, beside the
// deferred ones: the addresses that the kernel makes offsets and identifiers of.
// They come from a second instance with the same events, filters and threads. A
// failure there is reported, and live goes on without. A nil one has no stacks.
type rawStacks struct {
	in     *instance.Instance
	stacks *raw.Stacks // nil before open, and after an error
	err    error       // why there are none
	begun  tracefs.Time
}

// leastRawKB is the buffer of each CPU that the second instance has at least, about
// what the kernel gives: a stack without raw addresses proves less.
const leastRawKB = 1408

// startBeside makes the second instance, if the first one has deferred stacks.
func (s *session) startBeside() {
	if s.stacks != instance.DeferredStacks {
		return
	}
	s.beside = new(rawStacks)
	s.beside.in, s.beside.err = s.in.Beside()
	s.beside.set(func(in *instance.Instance) error {
		return in.Configure(instance.Config{Clock: Clock, BufferKB: max(s.opt.BufferKB, leastRawKB)})
	})
	s.beside.set(func(in *instance.Instance) error {
		_, err := in.SetStacks(instance.StockStacks)
		return err
	})
	s.beside.set(func(in *instance.Instance) error { return in.SetFilters(s.events) })
}

// instance returns the second instance, nil if there is none.
func (r *rawStacks) instance() *instance.Instance {
	if r == nil {
		return nil
	}
	return r.in
}

// set does something to the instance. An error ends its use.
func (r *rawStacks) set(do func(*instance.Instance) error) {
	if r == nil || r.err != nil {
		return
	}
	r.fail(do(r.in))
}

// fail ends the use of the instance after an error, and removes it.
func (r *rawStacks) fail(err error) {
	if err == nil || r.err != nil {
		return
	}
	r.err, r.stacks = err, nil
	if r.in != nil {
		_ = r.in.Remove() // close does it again, and reports errors
	}
}

// open begins to read.
func (r *rawStacks) open() {
	r.set(func(in *instance.Instance) (err error) {
		r.begun = space.Monotonic()
		r.stacks, err = raw.OpenStacks(in, raw.StackOptions{Begun: r.begun})
		return err
	})
}

// drain takes the stacks of all events up to the end of a batch, or all stacks.
// Later stacks wait: the trace itself is not read faster either.
func (r *rawStacks) drain(b *tracefs.Batch, all bool, to follower) error {
	if r == nil || r.stacks == nil {
		return nil
	}
	until := tracefs.Time(math.MaxInt64)
	if !all && !b.Paused {
		until = batchTime(b) + stampSlack
	}
	err := r.stacks.Drain(until, to.stack, to.loseStacks)
	if err == nil {
		return nil
	}
	now := space.Monotonic()
	to.loseStacks(raw.Loss{From: r.begun, To: now})
	r.fail(err)
	return nil
}

// stampSlack is more than a stamp of the text is rounded by.
const stampSlack = tracefs.Time(1000)

// batchTime returns the time of the last record of a batch, 0 if none has one.
func batchTime(b *tracefs.Batch) tracefs.Time {
	for i := len(b.Records) - 1; i >= 0; i-- {
		if b.Timed(&b.Records[i]) {
			return b.Time(&b.Records[i])
		}
	}
	return 0
}

// stop ends the tracing of the second instance.
func (r *rawStacks) stop() {
	if r != nil && r.in != nil && r.err == nil {
		_ = r.in.Stop() // it is removed next
	}
}

// words say in the start-up line whether there are raw stacks.
func (r *rawStacks) words() string {
	switch {
	case r == nil:
		return ""
	case r.err != nil:
		return ", no raw addresses beside them (" + r.err.Error() + ")"
	}
	return ", raw addresses by " + r.in.Name()
}

// report prints the losses.
func (r *rawStacks) report(say func(string, ...any), fl *following) {
	if r == nil {
		return
	}
	if r.err != nil && !errors.Is(r.err, instance.ErrRemoved) {
		say("raw addresses ended: %v", r.err)
	}
	n := fl.stackCounts()
	if n.Gaps > 0 {
		say("lost %d records of raw addresses, %d times: their frames resolve only by proofs from other stacks", n.Lost, n.Gaps)
	}
	if n.Dropped > 0 {
		say("dropped %d raw stacks that came too early", n.Dropped)
	}
}
