package perf

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
)

// Read passes the samples from before the call to take and the times without samples
// to lost, all in order of time. A sample is valid until take returns; it lies in the
// memory that the kernel writes to, whose room take should give back soon. Read
// returns the time up to which all samples have been passed.
func (s *Sampler) Read(take func(*StackSample), lost func(Loss)) tracefs.Time {
	until := s.Now()
	s.ReadSome(until, func(sample *StackSample) bool {
		take(sample)
		return true
	}, lost)
	return until
}

// ReadSome is Read up to a time, and until take returns false: that sample is the last one
// then. more is set if there may be some that are not too late.
func (s *Sampler) ReadSome(until tracefs.Time, take func(*StackSample) bool, lost func(Loss)) (more bool) {
	loss := func(l Loss) {
		s.count.Lost += l.Records
		lost(l)
	}
	for _, l := range s.later {
		loss(l)
	}
	s.later = s.later[:0]
	more, err := s.merge.ReadSome(slices.Concat(s.rings, s.retired), until, func(t tracefs.Time, b []byte) bool {
		switch recordType(b) {
		case unix.PERF_RECORD_THROTTLE: // how many are missing is not known
			loss(Loss{CPU: s.event.Layout().cpu(b), From: t, To: t})
			return true
		case unix.PERF_RECORD_SAMPLE, recordDeferred:
			return !s.decode(b) || take(&s.sample)
		}
		return true
	}, loss)
	if err != nil {
		s.count.Malformed++
	}
	if !more {
		s.followCPUs(until)
	}
	return more
}

// decode decodes a sample. It reports false if the sample is malformed.
func (s *Sampler) decode(b []byte) bool {
	s.count.Bytes += uint64(len(b))
	var err error
	if asSource && recordType(b) == recordDeferred {
		err = s.event.DecodeLate(b, &s.sample)
	} else {
		err = s.event.DecodeStack(b, &s.sample)
	}
	if err != nil {
		s.count.Malformed++
		return false
	}
	s.sample.Root = s.event.Layout().number(b)
	s.sample.Tracepoint = s.points[s.sample.Root]
	s.count.Samples++
	return true
}

// Unreported passes the losses to lost that no record has reported, because nothing was
// recorded after them. It is for the end, after the last read.
func (s *Sampler) Unreported(lost func(Loss)) {
	if !s.event.CountLost {
		return // before Linux 6.0 it cannot be known
	}
	for _, r := range s.rings {
		r.unrecorded(s.Now(), func(l Loss) {
			s.count.Lost += l.Records
			lost(l)
		})
	}
}

// followCPUs opens the rings of CPUs that went online, and closes the rings of CPUs
// that went offline, once they have been read after that: up to t. If threads are given, a
// CPU that went online samples these threads, and what they start from then on.
func (s *Sampler) followCPUs(t tracefs.Time) {
	if t >= s.gone {
		for _, r := range s.retired {
			for _, fd := range r.extra {
				delete(s.late, fd) // the number will be that of another event
			}
			_ = r.Close() // nothing is written to it any more
		}
		s.retired = s.retired[:0]
	}
	cpus := s.hotplug.Online(t)
	if cpus == nil {
		return
	}
	s.rings = slices.DeleteFunc(s.rings, func(r *Ring) bool {
		if !s.hotplug.Off(r.CPU, cpus) {
			return false
		}
		s.retired, s.gone = append(s.retired, r), s.Now()
		return true
	})
	s.hotplug.Closed()
	for _, cpu := range cpus {
		if slices.ContainsFunc(slices.Concat(s.rings, s.retired), func(r *Ring) bool { return r.CPU == cpu }) {
			continue
		}
		since := s.hotplug.Came(cpu)
		_ = s.openCPU(cpu) // else it is tried again, and is a loss until then
		s.hotplug.Opened(cpu)
		s.later = append(s.later, Loss{CPU: cpu, From: since, To: s.Now()})
	}
	s.hotplug.Done(t)
}

// Close closes all events.
func (s *Sampler) Close() error {
	var err error
	for _, r := range slices.Concat(s.rings, s.retired) {
		err = errors.Join(err, r.Close())
	}
	s.rings, s.retired = nil, nil
	return err
}
