package perfetto

import (
	"bufio"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/render/profile"
	"ustack/tracefs"
)

// Options are how a trace is written.
type Options struct {
	// Clock is the name of the trace clock, "" if unknown.
	Clock string
	// Process returns the process of a thread of which the trace has none; may be
	// nil.
	Process func(tid int32) (pid int32, ok bool)
}

// Type is what an Event is.
type Type uint64

// The types, TrackEvent.Type.
const (
	Begin   Type = 1
	End     Type = 2
	Instant Type = 3
)

// Track is the number of a track, from Writer.Thread or Writer.Lost.
type Track uint64

// Event is something on a track. In an End only Time, Track and Ends count, and
// the annotations, which are added to its Begin's.
type Event struct {
	Type     Type
	Time     tracefs.Time
	Track    Track
	Category string
	Name     string
	// Stack is innermost frame first, nil for none; Cut is set if more frames are
	// missing.
	Stack []profile.Frame
	Cut   bool
	// Functions are those of the Stack, none without names.
	Functions []symbol.Function
	// Flow is an arrow that begins here, FlowEnd one that ends here; 0 for none.
	Flow, FlowEnd uint64
	Notes         []Note
}

// Note is an annotation: what it is about, and a text, a number or an address.
type Note struct {
	Key   string
	Value any // string, int64, bool, Address
}

// Address is a Note's value.
type Address uint64

// Writer writes a trace. Its methods write a packet each, or several; Err and Flush
// return errors.
type Writer struct {
	out   *bufio.Writer
	err   error  // the first one
	clock uint64 // BuiltinClock, 0 if it is none
	pids  func(tid int32) (pid int32, ok bool)
	begun bool
	// cleared is set if the next packet begins a generation of interned data.
	cleared bool
	tables  tables
	tracks  map[Track]string // by which name they have been announced

	packet, body, part, interned message
}

// sequence is the number of our only packet sequence.
const sequence = 1

// NewWriter returns a Writer.
func NewWriter(w io.Writer, opt Options) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 1<<16), clock: clocks[opt.Clock], pids: opt.Process, cleared: true,
		tables: newTables(), tracks: make(map[Track]string)}
}

// Err is the first error of writing. Nothing is written after it.
func (w *Writer) Err() error { return w.err }

// Flush writes out what has been kept.
func (w *Writer) Flush() error { return w.out.Flush() }

// End is Flush after the last packet. The error is render.ErrEmpty if there was none: an empty
// file would pass for a result.
func (w *Writer) End() error {
	if w.err == nil && !w.begun {
		return render.ErrEmpty
	}
	return w.Flush()
}

// Event writes an event.
func (w *Writer) Event(e *Event) {
	w.room()
	w.body = w.body[:0]
	m := &w.body
	m.uint(eventType, uint64(e.Type))
	m.uint(eventTrack, uint64(e.Track))
	if e.Type != End {
		m.uint(eventCategory, w.category(e.Category))
		m.uint(eventName, w.eventName(e.Name))
		if id := w.callstack(e); id != 0 {
			m.uint(eventCallstack, id)
		}
	}
	for i := range e.Notes {
		w.note(&e.Notes[i])
	}
	if e.Flow != 0 {
		m.fixed(eventFlow, e.Flow)
	}
	if e.FlowEnd != 0 {
		m.fixed(eventFlowEnd, e.FlowEnd)
	}
	w.write(e.Time, packetTrackEvent)
}

// note adds an annotation to the event that is being made.
func (w *Writer) note(n *Note) {
	w.part = w.part[:0]
	m := &w.part
	m.uint(annotationName, w.annotation(n.Key))
	switch v := n.Value.(type) {
	case string:
		m.text(annotationText, shorten(v))
	case int64:
		m.uint(annotationInt, uint64(v))
	case Address:
		m.uint(annotationPointer, uint64(v))
	case bool:
		m.uint(annotationBool, protowire.EncodeBool(v))
	}
	w.body.bytes(eventAnnotation, w.part)
}

// write writes a packet: what body has, and what has been interned for it.
func (w *Writer) write(t tracefs.Time, data field) {
	t = max(t, 0)
	if !w.begun {
		w.begun = true
		w.snapshot(t)
	}
	w.packet = w.packet[:0]
	m := &w.packet
	m.uint(packetTimestamp, uint64(t))
	m.uint(packetSequence, sequence)
	flags := uint64(needsIncrementalState)
	if w.cleared {
		flags |= incrementalStateCleared
	}
	m.uint(packetSequenceFlags, flags)
	if w.cleared && w.clock != 0 {
		w.part = w.part[:0]
		w.part.uint(defaultsClock, w.clock)
		m.bytes(packetDefaults, w.part)
	}
	w.cleared = false
	if len(w.interned) > 0 {
		m.bytes(packetInterned, w.interned)
		w.interned = w.interned[:0]
	}
	m.bytes(data, w.body)
	w.put()
}

// snapshot says which clock the times are of. Without one they are the trace's
// own, as for a reader all are that know of no clock.
func (w *Writer) snapshot(t tracefs.Time) {
	if w.clock == 0 {
		return
	}
	var clock, snapshot message
	clock.uint(clockID, w.clock)
	clock.uint(clockTimestamp, uint64(t))
	snapshot.bytes(snapshotClock, clock)
	snapshot.uint(snapshotPrimary, w.clock)
	w.packet = w.packet[:0]
	w.packet.uint(packetSequence, sequence)
	w.packet.bytes(packetClockSnapshot, snapshot)
	w.put()
}

// put writes the packet as a field of Trace.
func (w *Writer) put() {
	var head [16]byte
	b := protowire.AppendTag(head[:0], tracePacket, protowire.BytesType)
	_, _ = w.out.Write(protowire.AppendVarint(b, uint64(len(w.packet)))) // an error stays
	if _, err := w.out.Write(w.packet); err != nil {
		w.err = err
	}
}
