package pagefile

import (
	"encoding/binary"
	"math"

	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/ring"
)

// Counts are records by what they are.
type Counts struct{ Events, Stacks int64 }

func (c *Counts) add(o Counts) {
	c.Events += o.Events
	c.Stacks += o.Stacks
}

// scanner looks at the records of pages: when they were made, by which thread, and what
// they are. It decodes nothing else of them.
type scanner struct {
	layout    ring.Layout
	kind, pid int     // offsets of common_type and common_pid
	classes   []class // by common_type
	namer     *namer
}

// class is what a record is.
type class uint8

const (
	classOther class = iota // a file mapping event, a cookie, a kernel stack
	classEvent
	classStack
)

// newScanner looks at the records of a kernel.
func newScanner(k *tracebinary.Kernel, names *namer) *scanner {
	s := &scanner{layout: k.Layout, pid: 4, namer: names}
	if k.Subbuf > 0 {
		s.layout.Size = k.Subbuf
	}
	for _, e := range k.Events {
		if kind, pid := e.Field("common_type"), e.Field("common_pid"); kind != nil && pid != nil {
			s.kind, s.pid = kind.Offset, pid.Offset
		}
		if e.ID < 0 || e.ID > math.MaxUint16 {
			continue
		}
		if e.ID >= len(s.classes) {
			s.classes = append(s.classes, make([]class, e.ID+1-len(s.classes))...)
		}
		s.classes[e.ID] = classOf(e.System, e.Name)
	}
	return s
}

// classOf returns what the records of an event are.
func classOf(system, name string) class {
	if system != "ftrace" {
		return classEvent
	}
	switch name {
	case "user_stack", "user_unwind_stack":
		return classStack
	case "print", "bprint", "bputs", "raw_data", "function":
		return classEvent
	}
	return classOther
}

// scan looks at a sub-buffer, and reports the loss before it.
func (s *scanner) scan(data []byte) (n Counts, missed bool, lost uint64) {
	var page ring.Page
	if page.Reset(&s.layout, data) != nil {
		return n, false, 0 // the reader reports it
	}
	for page.Next() {
		rec := page.Record
		if len(rec) < s.kind+2 || len(rec) < s.pid+4 {
			continue
		}
		// This program reads the ring buffer of its own machine.
		s.namer.record(int32(binary.NativeEndian.Uint32(rec[s.pid:])), page.Time)
		kind := int(binary.NativeEndian.Uint16(rec[s.kind:]))
		if kind >= len(s.classes) {
			continue
		}
		switch s.classes[kind] {
		case classEvent:
			n.Events++
		case classStack:
			n.Stacks++
		}
	}
	return n, page.Missed, page.Lost
}
