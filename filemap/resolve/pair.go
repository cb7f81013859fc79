package resolve

import (
	"encoding/binary"

	"ustack/tracefs"
	"ustack/tracefs/text"
)

// maxNested is how many events of a CPU can wait for their own records at
// once: an interrupt can come between an event and its cookie or stack.
const maxNested = 4

// stitcher gives events their stacks. It pairs the records that the kernel writes right
// after an event, on the same CPU and with the same flag columns, with the event, and
// the stack of a request with the events that asked for it.
//
// Invariants: of a held batch, as many events wait as it counts. An event that waits is of
// a thread that asked for a stack that has not come, or is open. Few events of a CPU are
// open. Detached stacks are the last ones of threads, or an event has them; kept is the
// size of the former.
type stitcher struct {
	open      [][][]eventRef // by source and CPU, innermost last
	free      []*Stack
	made      uint64              // the ID of the newest stack
	kept      int                 // bytes of detached stacks
	stackless [MissingCount]int64 // events, see Totals
	tooLate   int64               // events

	again Options // how late stacks are read
	queue *queue
	tasks *tasks
}

// maxCPU bounds the CPUs that are kept apart (NR_CPUS is 8192 at most).
const maxCPU = 1 << 13

// on returns the list of a CPU. Two sources have the same CPUs.
func (s *stitcher) on(rec *tracefs.Record) *[]eventRef {
	source, cpu := int(rec.Source), int(rec.CPU&(maxCPU-1))
	if source >= len(s.open) {
		s.open = append(s.open, make([][][]eventRef, source+1-len(s.open))...)
	}
	cpus := &s.open[source]
	if cpu >= len(*cpus) {
		*cpus = append(*cpus, make([][]eventRef, cpu+1-len(*cpus))...)
	}
	return &(*cpus)[cpu]
}

// openEvent begins an event: a cookie or stack may follow. Events that it proves
// to be over get no cookie or stack any more.
func (s *stitcher) openEvent(h *Pending, i int, rec *tracefs.Record) {
	if rec.Flags&tracefs.Continued != 0 {
		return
	}
	ctx, open := context(h, rec), s.on(rec)
	list := *open
	for len(list) > 0 {
		last := &list[len(list)-1]
		if last.tid == rec.TID && last.ctx != ctx && len(list) < maxNested {
			break // an interrupt's, or a nested one
		}
		s.noStack(last, NotMissing)
		list = list[:len(list)-1]
	}
	if *open = list; rec.Flags&tracefs.StackLeft != 0 {
		return
	}
	a := &h.Attached[i]
	a.waits = true
	h.events++
	n := len(list)
	if n < cap(list) {
		list = list[:n+1]
	} else {
		list = append(list, eventRef{})
	}
	// Field by field: a whole one would be written in pieces and copied in larger ones, for
	// which the processor has to wait.
	ref := &list[n]
	ref.pending, ref.seq, ref.rec, ref.tid, ref.ctx = h, h.seq, int32(i), rec.TID, ctx
	*open = list
}

// context returns what the flag columns of a record show, but for the second one:
// a timer can ask for the CPU between an event and its stack, and kernels before
// 5.12 look once for each (tracing_generic_entry_update in kernel/trace/trace.c).
func context(h *Pending, rec *tracefs.Record) uint64 {
	if flags, ok := h.Context(rec); ok {
		return contextOf(flags)
	}
	flags := text.UsualFlags(h.Text[rec.Off:rec.Body])
	if flags == nil {
		flags = h.Head(rec).Flags
	}
	var columns [8]byte
	copy(columns[:], flags)
	columns[reschedule] = 0
	return binary.LittleEndian.Uint64(columns[:])
}

const reschedule = 1 // the column that is left out

// contextOf returns the context that all columns show.
func contextOf(c [tracefs.FlagColumns]byte) uint64 {
	return uint64(c[0]) | uint64(c[2])<<16 | uint64(c[3])<<24 | uint64(c[4])<<32
}

// eventOf finds the event that a cookie or immediate stack belongs to.
func (s *stitcher) eventOf(h *Pending, rec *tracefs.Record) (ref eventRef, ok bool) {
	open := s.on(rec)
	list := *open
	for n := len(list) - 1; n >= 0; n-- {
		found := &list[n]
		if found.tid == rec.TID && s.live(found) && found.ctx == context(h, rec) &&
			s.queue.limits.within(found.pending, &found.pending.Records[found.rec], h, rec) {
			ref = *found
			if *open = list[:len(list)-1]; n < len(list)-1 {
				copy(list[n:], list[n+1:])
			}
			return ref, true
		}
	}
	return eventRef{}, false
}

// live reports whether an event is still held.
func (s *stitcher) live(ref *eventRef) bool { return s.queue.holds(ref.seq) }

// loseEvents ends the events of a CPU, or of all, that wait for their stack
// where records are missing: the thread's next record can belong to a missing
// event, too. The kernel notes a loss right before the first record after it
// (print_trace_line in kernel/trace/trace.c), and so does the reader of the
// binary buffer.
func (s *stitcher) loseEvents(rec *tracefs.Record) {
	if rec.CPU >= 0 {
		s.loseOn(s.on(rec))
		return
	}
	if int(rec.Source) < len(s.open) {
		cpus := s.open[rec.Source]
		for cpu := range cpus {
			s.loseOn(&cpus[cpu])
		}
	}
}

// loseOn ends the open events of a CPU.
func (s *stitcher) loseOn(open *[]eventRef) {
	for i := range *open {
		ref, why := &(*open)[i], NotMissing
		if s.tasks.get(ref.tid).stitch.user {
			why = LostStack
		}
		s.noStack(ref, why)
	}
	*open = (*open)[:0]
}
