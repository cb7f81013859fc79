package raw

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ustack/tracefs"
	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/format"
	"ustack/tracefs/instance"
	"ustack/tracefs/ring"
)

// Record is a record of an event as it stands in the ring buffer.
type Record struct {
	Time tracefs.Time // exact, by the clock of the trace
	TID  int32        // of the task that made it (common_pid)
	ID   uint16       // of the event (common_type)
	// Data is all of it, from common_type on, valid until the call that it is given to
	// returns.
	Data []byte
}

// Records reads the records of an instance, as bytes, in the order of their time. No name
// that a program chooses can look like a record.
type Records struct {
	pageReader
	poll func() []int
	kind int // offset of common_type
	pid  int // of common_pid
}

// OpenRecords begins to read the records of an instance, whose clock must be mono, and
// returns the formats of events. It must be the only reader of the instance.
func OpenRecords(in *instance.Instance, events []instance.Event, begun tracefs.Time) (*Records, []*format.Event, error) {
	clock, err := in.Clock()
	if err != nil {
		return nil, nil, err
	}
	if clock != "mono" {
		return nil, nil, fmt.Errorf("reading the records of an instance with the clock %s: it must be mono", clock)
	}
	var patterns []string
	for _, e := range events {
		patterns = append(patterns, e.System+"/"+e.Name)
	}
	k, err := tracebinary.ReadMeta(in.Root().FS(), in.FS(), patterns...)
	if err != nil {
		return nil, nil, fmt.Errorf("reading how the ring buffer is laid out: %w", err)
	}
	layout := k.Layout
	if k.Subbuf > 0 {
		layout.Size = k.Subbuf
	}
	pipe, err := in.RawPipe(instance.RawOptions{Subbuf: layout.Size, Copy: true})
	if err != nil {
		return nil, nil, err
	}
	r, err := NewRecords(pipe, layout, k.Events, begun)
	if err != nil {
		return nil, nil, errors.Join(err, pipe.Close())
	}
	r.poll = pipe.FDs
	return r, k.Events, nil
}

// NewRecords reads records from rings; events are the formats of some of them.
func NewRecords(rings Rings, layout ring.Layout, events []*format.Event, begun tracefs.Time) (*Records, error) {
	for _, e := range events {
		kind, pid := e.Field("common_type"), e.Field("common_pid")
		if kind != nil && pid != nil && kind.Size == 2 && pid.Size == 4 {
			return &Records{pageReader: newPageReader(rings, layout, begun), kind: kind.Offset, pid: pid.Offset}, nil
		}
	}
	return nil, errors.New("reading records: the kernel does not say how they are laid out (events/*/*/format)")
}

// FDs returns the files to poll for records, none if that is not possible.
func (r *Records) FDs() []int {
	if r.poll == nil {
		return nil
	}
	return r.poll()
}

// Drain calls take with all records up to a time, in the order of their time, and lost
// with the losses, each before the first record after it of the same CPU. Later records
// stay where they are. A record that was begun before that time and is not complete yet
// comes with a later Drain.
func (r *Records) Drain(until tracefs.Time, take func(*Record), lost func(Loss)) error {
	if !r.rings.Hold() {
		return nil // closed: the end
	}
	defer r.rings.Release()
	for {
		first, limit, err := r.first(until, lost)
		if err != nil || first < 0 {
			return err
		}
		// The records of one CPU up to the next one of another CPU.
		for {
			t, more, err := r.peek(first, until, lost)
			if err != nil {
				return err
			}
			if !more || t > limit {
				break
			}
			r.give(r.taken(first, t), t, take)
		}
	}
}

// first returns the CPU with the first record, -1 if there is none until a time, and the
// time of the first record of the others, or until.
func (r *Records) first(until tracefs.Time, lost func(Loss)) (cpu int, limit tracefs.Time, err error) {
	cpu, limit = -1, until
	best := until
	for i := range r.cpus {
		t, more, err := r.peek(i, until, lost)
		switch {
		case err != nil:
			return -1, 0, err
		case !more || t > until:
		case cpu < 0:
			cpu, best = i, t
		case t < best:
			cpu, best, limit = i, t, best
		default:
			limit = min(limit, t)
		}
	}
	return cpu, limit, nil
}

func (r *Records) give(data []byte, t tracefs.Time, take func(*Record)) {
	if len(data) < max(r.kind+2, r.pid+4) {
		return
	}
	take(&Record{Time: t, TID: int32(binary.NativeEndian.Uint32(data[r.pid:])), ID: binary.NativeEndian.Uint16(data[r.kind:]), Data: data})
}
