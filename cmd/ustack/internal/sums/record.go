//go:build !device && (amd64 || arm64)

package sums

import (
	"hash/maphash"
	"time"

	"ustack/cmd/ustack/internal/recorder"
	"ustack/render/futex"
	"ustack/tracefs"
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
	return o.to.Begin(at)
}

// hide replaces the address of a process's memory in the kernel, which is not for files.
func (o *recording) hide(id futex.FutexID) futex.FutexID {
	id.Memory = maphash.Comparable(o.seed, id.Memory)
	return id
}

func (o *recording) wait(w *futex.LongWait) error {
	w.Futex = o.hide(w.Futex)
	return o.to.Wait(w)
}

func (o *recording) gone(id futex.FutexID, c *futex.CallSum) { o.to.Gone(o.hide(id), c) }

// state returns what has been counted until now.
func (o *recording) state() (*futex.SummedState, error) {
	st, err := o.s.state()
	if err != nil {
		return nil, err
	}
	sums := make(map[futex.FutexID]*futex.CallSum, len(st.Sums))
	for id, c := range st.Sums {
		sums[o.hide(id)] = c
	}
	st.Sums = sums
	for i := range st.Open {
		st.Open[i].Futex = o.hide(st.Open[i].Futex)
	}
	return st, nil
}

func (o *recording) step() (done bool, err error) {
	if now := o.s.clock.mono(); now >= o.next {
		o.next = now + tracefs.Time(recorder.SumsEvery)
		st, err := o.state()
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
