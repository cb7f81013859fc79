//go:build !device && (amd64 || arm64)

package sums

import (
	"hash/maphash"
	"time"

	"ustack/cmd/ustack/internal/recorder"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// recording keeps waits and sums in memory, until something happens.
type recording struct {
	s    *session
	to   *recorder.Sums
	next tracefs.Time // when sums are due
	seed maphash.Seed // of what stands for the kernel's addresses
}

func newRecording(s *session, r *Recording) (*recording, time.Duration, error) {
	to, minWait, err := recorder.NewSums(r.Options, r.Ring, s.opt.MinWait, s.clock.now)
	if err != nil {
		return nil, 0, err
	}
	return &recording{s: s, to: to, seed: maphash.MakeSeed()}, minWait, nil
}

func (o *recording) begin(at tracefs.Time) error {
	o.next = at + tracefs.Time(recorder.SumsEvery)
	o.to.Unwinds = o.s.copied
	return o.to.Begin(at)
}

// id returns a futex without the address of its process's memory in the kernel, which is not for
// files: a number stands for it.
func (o *recording) id(f *bpffutex.Futex) futex.FutexID {
	id := futexID(f)
	id.Memory = maphash.Comparable(o.seed, id.Memory)
	return id
}

func (o *recording) wait(w *futex.LongWait) error { return o.to.Wait(w) }

func (o *recording) gone(id futex.FutexID, c *futex.CallSum) { o.to.Gone(id, c) }

// state returns what has been counted until now.
func (o *recording) state() (*futex.SummedState, error) { return o.s.now(o.to.Known()) }

func (o *recording) step() (done bool, err error) {
	if now := o.s.clock.mono(); now >= o.next {
		o.next = now + tracefs.Time(recorder.SumsEvery)
		st, err := o.s.state(o.to.Known())
		if err != nil {
			return false, err
		}
		if err := o.to.Sums(st); err != nil {
			return false, err
		}
	}
	return o.to.Step(o.state)
}

func (o *recording) end() error { return o.to.Close(o.state) }

func (o *recording) close() error {
	o.to.End()
	return nil
}
