package sideband

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/privilege"
)

// ring is the ring buffer of a CPU.
type ring struct {
	*perf.Ring
	// soft: it has only records of changes that perf itself does not report,
	// see History.Unsure.
	soft     bool
	features features
	// gone is when its CPU was found to have gone offline, 0 if it has not.
	gone tracefs.Time
}

// add opens one more event in a place on the CPU, whose records go to the ring.
func (r *ring) add(e *perf.Event, at perf.Place) error {
	fd, err := e.Open(at.Into(r.Ring))
	if err != nil {
		return err
	}
	if err := perf.Enable(fd); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	r.Add(fd)
	return nil
}

// newRing opens the ring of a CPU, with the event of a place there. If the kernel does
// not grant that much memory, it is made smaller.
func (o *Options) newRing(at perf.Place, cpu int, clock int32) (*ring, error) {
	defer privilege.Raise(privilege.Perf).Lower()
	r := new(ring)
	var refused error
	ring, err := perf.OpenRing(cpu, o.RingSize, func(size int) (fd int, err error) {
		fd, r.features, err = o.openEvent(at, clock, size)
		refused = err
		return fd, err
	})
	if refused != nil {
		return nil, fmt.Errorf("opening the perf side band of CPU %d: %w", cpu, perf.Refusal(refused))
	}
	if err != nil {
		return nil, err
	}
	r.Ring = ring
	return r, nil
}
