package tracefs

import "ustack/tracefs/syscalls"

// FlagColumns is how many columns option irq-info has ("d..2.", trace_print_lat_fmt
// in kernel/trace/trace_output.c).
const FlagColumns = 5

// Origin is a record's header as a source gives it that has no need of text: who
// wrote it and when.
type Origin struct {
	// Time is rounded as the kernel's text is, Exact is not.
	Time, Exact Time
	// Comm is the task's name as in Head. It is never changed, so it may be kept.
	Comm []byte
	// TGID is the process, by the record itself or by the header, NoTID if neither
	// has it.
	TGID int32
	// Flags are the irq-info columns; zero if the source has none.
	Flags [FlagColumns]byte
}

// origin returns the record's Origin, nil if its source has none.
func (b *Batch) origin(r *Record) *Origin {
	if r.Origin == 0 {
		return nil
	}
	return &b.Origins[r.Origin-1]
}

// Head decodes the header of a record, if it has one.
func (b *Batch) Head(r *Record) Head {
	if r.Body > r.Off {
		return b.Heads[r.Source].Head(b.Text[r.Off:r.Body])
	}
	o := b.origin(r)
	if o == nil {
		return Head{TGID: NoTID}
	}
	h := Head{Comm: o.Comm, TGID: o.TGID}
	if o.Flags[0] != 0 {
		h.Flags = o.Flags[:]
	}
	return h
}

// Time returns the record's time stamp, 0 if it has none.
func (b *Batch) Time(r *Record) Time {
	if r.Noted != 0 {
		return r.Noted
	}
	return b.readTime(r)
}

// NoteTime keeps what Time returns, which reads text each time else. The record is of
// nobody else meanwhile.
func (b *Batch) NoteTime(r *Record) { r.Noted = b.readTime(r) }

func (b *Batch) readTime(r *Record) Time {
	if o := b.origin(r); o != nil {
		return o.Time
	}
	if r.Body <= r.Off {
		return 0
	}
	return b.Heads[r.Source].Time(b.Text[r.Off:r.Body])
}

// Exact returns the record's time stamp as the kernel took it; ok is false if its
// source has only text, which may be rounded.
func (b *Batch) Exact(r *Record) (t Time, ok bool) {
	o := b.origin(r)
	if o == nil || o.Exact == 0 {
		return 0, false
	}
	return o.Exact, true
}

// Headed reports whether the record has a header, in words or not.
func (b *Batch) Headed(r *Record) bool { return r.Body > r.Off || r.Origin != 0 }

// Timed reports whether Time is the record's, in nanoseconds.
func (b *Batch) Timed(r *Record) bool { return b.Headed(r) && b.Heads[r.Source].Nanoseconds() }

// Who returns the task that wrote the record: its name as in Head, and its
// process, NoTID if the record does not have it.
func (b *Batch) Who(r *Record) (comm []byte, tgid int32) {
	if o := b.origin(r); o != nil {
		return o.Comm, o.TGID
	}
	h := b.Head(r)
	return h.Comm, h.TGID
}

// Context returns the irq-info columns of a record: what kind of code wrote it.
// ok is false if there is neither text nor an Origin.
func (b *Batch) Context(r *Record) (flags [FlagColumns]byte, ok bool) {
	if o := b.origin(r); o != nil {
		return o.Flags, true
	}
	return flags, false
}

// Call returns the system call of an event without text, nil for others.
func (b *Batch) Call(r *Record) *syscalls.Event {
	if r.Item == 0 || r.Kind != KindEvent {
		return nil
	}
	return &b.Calls[r.Item-1]
}

// AddCall makes room for the system call of an event.
func (b *Batch) AddCall(r *Record) *syscalls.Event {
	b.Calls = append(b.Calls, syscalls.Event{})
	r.Item = uint32(len(b.Calls))
	return &b.Calls[r.Item-1]
}

// InInterrupt reports whether a record with these irq-info columns was made in an
// interrupt, not by the task it names (trace_print_lat_fmt in
// kernel/trace/trace_output.c).
func InInterrupt(flags []byte) bool {
	const context = 2
	return len(flags) > context && flags[context] != '.'
}
