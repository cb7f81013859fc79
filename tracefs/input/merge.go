package input

import (
	"errors"
	"fmt"
	"io"

	"ustack/tracefs"
	"ustack/tracefs/text"
)

// Merge reads several inputs as one trace, by time. Within an input the order
// stays; of equal times mapping events come last, and else the earlier input first. A record without a
// time (loss, comments) goes with the next record of its input.
type Merge struct {
	heads []*mergeHead
	pos   int64
	line  int64
	// escape: text that is not escaped is escaped. If one input is escaped, all
	// must be.
	escape, begun bool
	errs          []error // of inputs that have ended with one
	ns            *bool   // whether the clock counts nanoseconds, once known
}

// mergeHead is where one input stands.
type mergeHead struct {
	src   source
	batch tracefs.Batch
	next  int // record
	time  tracefs.Time
	head  tracefs.HeadDecoder
	err   error
	ended bool
	// escape: its batches must be escaped.
	escape bool
}

// escaped makes the batch at hand escaped, if that is asked for.
func (h *mergeHead) escaped() {
	if !h.escape {
		return
	}
	text.Escape(&h.batch)
	if len(h.batch.Heads) > 0 {
		h.head = h.batch.Heads[0]
	}
}

// newMerge merges sources, which must give events.
func newMerge(sources []source) *Merge {
	m := new(Merge)
	for _, s := range sources {
		m.heads = append(m.heads, &mergeHead{src: s})
	}
	return m
}

// perLine is how many bytes a line without text counts for.
const perLine = 16

// Next implements Reader.
func (m *Merge) Next(b *tracefs.Batch) error {
	b.Reset()
	m.begin()
	b.Pos, b.Line, b.Escaped = m.pos, m.line, m.escape
	b.Heads = make([]tracefs.HeadDecoder, len(m.heads))
	for len(b.Text) < blockSize && b.Lines < blockSize/perLine {
		n, err := m.first()
		if err != nil {
			m.sent(b)
			return err
		}
		if n < 0 {
			m.sent(b)
			return io.EOF
		}
		m.heads[n].move(b, uint8(n))
	}
	m.sent(b)
	return nil
}

// begin looks whether an input is escaped.
func (m *Merge) begin() {
	if m.begun {
		return
	}
	m.begun = true
	for _, h := range m.heads {
		if err := h.load(); err != nil {
			m.errs = append(m.errs, err)
		}
		m.escape = m.escape || h.batch.Escaped
	}
	if !m.escape {
		return
	}
	m.pos, m.line = int64(len(text.Head)), 1
	for _, h := range m.heads {
		h.escape = true
		h.escaped()
	}
}

func (m *Merge) sent(b *tracefs.Batch) {
	for n, h := range m.heads {
		b.Heads[n] = h.head
	}
	m.pos += int64(len(b.Text))
	m.line += b.Lines
}

// first returns the input with the earliest record, -1 if all have ended.
func (m *Merge) first() (int, error) {
	best := -1
	for n, h := range m.heads {
		if err := h.load(); err != nil {
			m.errs = append(m.errs, err)
		}
		if h.next >= len(h.batch.Records) {
			continue
		}
		if err := m.sameClock(h); err != nil {
			return -1, err
		}
		if best < 0 || h.before(m.heads[best]) {
			best = n
		}
	}
	if best < 0 {
		return best, errors.Join(m.errs...)
	}
	return best, nil
}

// before reports whether an input's next record comes before another's. At
// equal times mapping events come last: the kernel makes them after the stack.
func (h *mergeHead) before(other *mergeHead) bool {
	if h.time != other.time {
		return h.time < other.time
	}
	const announce = tracefs.KindMappingEvent
	return h.batch.Records[h.next].Kind != announce && other.batch.Records[other.next].Kind == announce
}

// sameClock refuses to compare times of different clocks.
func (m *Merge) sameClock(h *mergeHead) error {
	if h.head == nil {
		return nil
	}
	ns := h.head.Nanoseconds()
	if m.ns == nil {
		m.ns = &ns
	}
	if *m.ns != ns {
		return fmt.Errorf("merging %s: its clock is not that of the other inputs", h.src.name())
	}
	return nil
}

// load makes sure that the input has a next record, or has ended. It returns
// the error that ended it, once; the other inputs go on.
func (h *mergeHead) load() error {
	for h.next >= len(h.batch.Records) {
		if h.ended {
			return nil
		}
		if h.err != nil {
			h.ended = true
			if h.err == io.EOF {
				return nil
			}
			return h.err
		}
		h.err = h.src.Next(&h.batch)
		h.next = 0
		if len(h.batch.Heads) > 0 {
			h.head = h.batch.Heads[0]
		}
		h.escaped()
		h.stamp()
	}
	return nil
}

// stamp finds the time that decides about the next record.
func (h *mergeHead) stamp() {
	for i := h.next; i < len(h.batch.Records); i++ {
		if r := &h.batch.Records[i]; h.batch.Headed(r) {
			h.time = h.batch.Time(r)
			return
		}
	}
}

// move appends the next record to b.
func (h *mergeHead) move(b *tracefs.Batch, source uint8) {
	r := h.batch.Records[h.next]
	raw := h.batch.Text[r.Off:r.End]
	if n := len(b.Text); n > 0 && b.Text[n-1] != '\n' && len(raw) > 0 {
		// The last record lacks its line feed: the end of an input, or a
		// record cut by the kernel. The text after it here is not what followed
		// it there.
		last := len(b.Records) - 1
		for b.Records[last].Flags&tracefs.NoText != 0 {
			last--
			b.Records[last+1].Off, b.Records[last+1].End = uint32(n)+1, uint32(n)+1
		}
		b.Text = append(b.Text, '\n')
		b.Lines++
		b.Records[last].End++
		b.Records[last].Flags &^= tracefs.Glued
	}
	shift := uint32(len(b.Text)) - r.Off
	b.Text = append(b.Text, raw...)
	b.Lines += h.batch.LinesOf(&r)
	switch r.Kind {
	case tracefs.KindStack:
		frames, _ := h.batch.StackFrames(&r)
		r.Lo = uint32(len(b.Frames))
		for _, f := range frames {
			f.Off, f.End, f.AddrEnd = f.Off+shift, f.End+shift, f.AddrEnd+shift
			b.Frames = append(b.Frames, f)
		}
		r.Hi = uint32(len(b.Frames))
	case tracefs.KindMappingEvent:
		a := *h.batch.MappingEvent(&r)
		a.Path, a.BuildID = append([]byte(nil), a.Path...), append([]byte(nil), a.BuildID...)
		b.AddMappingEvent(&r, a)
	case tracefs.KindEvent:
		if r.Flags&tracefs.Continued == 0 {
			b.Events++
		}
		if call := h.batch.Call(&r); call != nil {
			*b.AddCall(&r) = *call
		}
	}
	if r.Origin != 0 {
		b.Origins = append(b.Origins, h.batch.Origins[r.Origin-1])
		r.Origin = uint32(len(b.Origins))
	}
	r.Off, r.End = r.Off+shift, r.End+shift
	if h.batch.Records[h.next].Body > h.batch.Records[h.next].Off {
		r.Body += shift
	} else {
		r.Body = 0
	}
	r.Source = source
	b.Records = append(b.Records, r)
	h.next++
	h.stamp()
}
