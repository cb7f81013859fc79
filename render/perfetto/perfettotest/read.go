// Package perfettotest reads Perfetto traces for tests, in the way of Perfetto's
// own importer (src/trace_processor/importers/proto), but where that counts an
// error and goes on, it fails.
package perfettotest

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Trace is what a trace shows.
type Trace struct {
	// Clock is the primary clock, 0 if there is none.
	Clock  uint64
	Tracks map[uint64]*Track
	// Slices are in the order in which they begin.
	Slices []*Slice
	// Generations is how often interned data has begun anew.
	Generations int
}

// Track is a track. PID and TID are 0 if it is no thread's.
type Track struct {
	UUID, Parent uint64
	PID, TID     int64
	Name         string // its own, or the thread's, or the process's
	open         []*Slice
}

// Slice is a slice, or an instant.
type Slice struct {
	Track          *Track
	Begin          uint64
	End            uint64 // 0 if it does not end
	Instant        bool
	Name, Category string
	Notes          map[string]any
	Stack          []Frame // innermost first, nil if there is none
	// Flow are the flows that begin here, FlowEnd the ones that end here.
	Flow, FlowEnd []uint64
}

// Frame is a frame of a stack.
type Frame struct {
	Function, Path, BuildID, Source string
	RelPC                           uint64
	Line                            uint64
	Mapped                          bool
}

// reader reads a trace.
type reader struct {
	trace    *Trace
	interned map[string]map[uint64]protoreflect.Message
	ever     map[string]map[uint64]bool
	valid    bool // there is a generation
	events   []*event
}

type event struct {
	at    uint64
	kind  uint64
	track uint64
	slice Slice
}

// Read reads a trace.
func Read(data []byte) (*Trace, error) {
	kind, err := traceType()
	if err != nil {
		return nil, err
	}
	r := &reader{trace: &Trace{Tracks: make(map[uint64]*Track)}, interned: make(map[string]map[uint64]protoreflect.Message), ever: make(map[string]map[uint64]bool)}
	packet := kind.Fields().ByName("packet").Message()
	for len(data) > 0 {
		number, typ, n := protowire.ConsumeTag(data)
		if n < 0 || number != 1 || typ != protowire.BytesType {
			return nil, errors.New("something else than a packet")
		}
		body, size := protowire.ConsumeBytes(data[n:])
		if size < 0 {
			return nil, errors.New("the last packet is cut")
		}
		data = data[n+size:]
		m := dynamicpb.NewMessage(packet)
		if err := proto.Unmarshal(body, m); err != nil {
			return nil, err
		}
		if err := known(m); err != nil {
			return nil, err
		}
		if err := r.packet(m); err != nil {
			return nil, fmt.Errorf("%w in %v", err, m)
		}
	}
	return r.trace, r.replay()
}

// known fails for fields that the schema does not have, and strings that are not
// UTF-8.
func known(m protoreflect.Message) error {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("%s has an unknown field: % x", m.Descriptor().Name(), m.GetUnknown())
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		each := func(v protoreflect.Value) {
			switch {
			case err != nil:
			case f.Kind() == protoreflect.MessageKind:
				err = known(v.Message())
			case f.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String()):
				err = fmt.Errorf("%s is %q", f.FullName(), v.String())
			}
		}
		if f.IsList() {
			for i := range v.List().Len() {
				each(v.List().Get(i))
			}
		} else {
			each(v)
		}
		return err == nil
	})
	return err
}

// get returns a field of a message.
func get(m protoreflect.Message, name string) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

func has(m protoreflect.Message, name string) bool {
	return m.Has(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

func (r *reader) packet(m protoreflect.Message) error {
	if get(m, "trusted_packet_sequence_id").Uint() == 0 {
		return errors.New("no sequence")
	}
	if has(m, "clock_snapshot") {
		r.trace.Clock = get(get(m, "clock_snapshot").Message(), "primary_trace_clock").Uint()
		return nil
	}
	const cleared, needs = 1, 2
	flags := get(m, "sequence_flags").Uint()
	if flags&cleared != 0 {
		r.valid = true
		r.trace.Generations++
		clear(r.interned)
		if clock := get(get(m, "trace_packet_defaults").Message(), "timestamp_clock_id").Uint(); clock != r.trace.Clock {
			return fmt.Errorf("times are of clock %d, the trace's is %d", clock, r.trace.Clock)
		}
	}
	if flags&needs == 0 || !r.valid || !has(m, "timestamp") {
		return errors.New("no state, or no time")
	}
	if err := r.intern(get(m, "interned_data").Message()); err != nil {
		return err
	}
	switch {
	case has(m, "track_descriptor"):
		return r.descriptor(get(m, "track_descriptor").Message())
	case has(m, "track_event"):
		return r.event(get(m, "timestamp").Uint(), get(m, "track_event").Message())
	}
	return errors.New("nothing")
}

func (r *reader) intern(data protoreflect.Message) error {
	var err error
	data.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		table := string(f.Name())
		for i := range v.List().Len() {
			entry := v.List().Get(i).Message()
			id := get(entry, "iid").Uint()
			if id == 0 || r.ever[table][id] {
				err = fmt.Errorf("%s %d is there twice", table, id)
				return false
			}
			if r.ever[table] == nil {
				r.ever[table] = make(map[uint64]bool)
			}
			if r.interned[table] == nil {
				r.interned[table] = make(map[uint64]protoreflect.Message)
			}
			r.ever[table][id], r.interned[table][id] = true, entry
		}
		return true
	})
	return err
}

// lookup returns an entry of a table.
func (r *reader) lookup(table string, id uint64) (protoreflect.Message, error) {
	m := r.interned[table][id]
	if m == nil {
		return nil, fmt.Errorf("%s %d is unknown", table, id)
	}
	return m, nil
}

// text returns the text of an entry.
func (r *reader) text(table string, id uint64) (string, error) {
	m, err := r.lookup(table, id)
	if err != nil {
		return "", err
	}
	if m.Descriptor().Fields().ByName("str") != nil {
		return string(get(m, "str").Bytes()), nil
	}
	return get(m, "name").String(), nil
}

func (r *reader) descriptor(m protoreflect.Message) error {
	t := &Track{UUID: get(m, "uuid").Uint(), Parent: get(m, "parent_uuid").Uint(), Name: get(m, "name").String()}
	if t.UUID == 0 {
		return errors.New("a track without a number")
	}
	if t.Parent != 0 && r.trace.Tracks[t.Parent] == nil {
		return fmt.Errorf("parent %d is unknown", t.Parent)
	}
	if has(m, "process") {
		p := get(m, "process").Message()
		t.PID, t.Name = get(p, "pid").Int(), get(p, "process_name").String()
	}
	if has(m, "thread") {
		p := get(m, "thread").Message()
		t.PID, t.TID, t.Name = get(p, "pid").Int(), get(p, "tid").Int(), get(p, "thread_name").String()
		if t.PID <= 0 || t.TID <= 0 {
			return errors.New("a thread without numbers")
		}
	}
	if old := r.trace.Tracks[t.UUID]; old != nil {
		if old.PID != t.PID || old.TID != t.TID || old.Parent != t.Parent {
			return fmt.Errorf("track %d was %+v", t.UUID, old)
		}
		old.Name = t.Name
		return nil
	}
	r.trace.Tracks[t.UUID] = t
	return nil
}

func (r *reader) event(at uint64, m protoreflect.Message) error {
	e := &event{at: at, kind: get(m, "type").Uint(), track: get(m, "track_uuid").Uint()}
	s := &e.slice
	if s.Track = r.trace.Tracks[e.track]; s.Track == nil {
		return fmt.Errorf("track %d is unknown", e.track)
	}
	s.Begin, s.Notes = at, make(map[string]any)
	for i := range get(m, "debug_annotations").List().Len() {
		if err := r.note(s, get(m, "debug_annotations").List().Get(i).Message()); err != nil {
			return err
		}
	}
	flows, ends := get(m, "flow_ids").List(), get(m, "terminating_flow_ids").List()
	for i := range flows.Len() {
		s.Flow = append(s.Flow, flows.Get(i).Uint())
	}
	for i := range ends.Len() {
		s.FlowEnd = append(s.FlowEnd, ends.Get(i).Uint())
	}
	r.events = append(r.events, e)
	if e.kind == 2 {
		return nil
	}
	var err error
	if s.Name, err = r.text("event_names", get(m, "name_iid").Uint()); err != nil {
		return err
	}
	if get(m, "category_iids").List().Len() != 1 {
		return errors.New("not one category")
	}
	if s.Category, err = r.text("event_categories", get(m, "category_iids").List().Get(0).Uint()); err != nil {
		return err
	}
	if has(m, "callstack_iid") {
		s.Stack, err = r.callstack(get(m, "callstack_iid").Uint())
	}
	return err
}

func (r *reader) note(s *Slice, m protoreflect.Message) error {
	key, err := r.text("debug_annotation_names", get(m, "name_iid").Uint())
	if err != nil {
		return err
	}
	if _, ok := s.Notes[key]; ok {
		return fmt.Errorf("%s is there twice", key)
	}
	for _, name := range []string{"bool_value", "int_value", "string_value", "pointer_value"} {
		if has(m, name) {
			s.Notes[key] = get(m, name).Interface()
		}
	}
	if s.Notes[key] == nil {
		return fmt.Errorf("%s has no value", key)
	}
	return nil
}

func (r *reader) callstack(id uint64) ([]Frame, error) {
	m, err := r.lookup("callstacks", id)
	if err != nil {
		return nil, err
	}
	ids := get(m, "frame_ids").List()
	if ids.Len() == 0 {
		return nil, errors.New("an empty stack")
	}
	var out []Frame
	for i := range ids.Len() {
		f, err := r.frame(ids.Get(i).Uint())
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	slices.Reverse(out) // the outermost comes first there
	return out, nil
}

func (r *reader) frame(id uint64) (f Frame, err error) {
	m, err := r.lookup("frames", id)
	if err != nil {
		return f, err
	}
	if f.Function, err = r.text("function_names", get(m, "function_name_id").Uint()); err != nil {
		return f, err
	}
	if has(m, "source_path_iid") {
		f.Line = get(m, "line_number").Uint()
		if f.Source, err = r.text("source_paths", get(m, "source_path_iid").Uint()); err != nil {
			return f, err
		}
	}
	if !has(m, "mapping_id") {
		return f, nil
	}
	if !has(m, "rel_pc") {
		return f, errors.New("a frame with a mapping and no rel_pc")
	}
	f.Mapped, f.RelPC = true, get(m, "rel_pc").Uint()
	mapping, err := r.lookup("mappings", get(m, "mapping_id").Uint())
	if err != nil {
		return f, err
	}
	if get(mapping, "path_string_ids").List().Len() != 1 {
		return f, errors.New("a path of several parts")
	}
	if f.Path, err = r.text("mapping_paths", get(mapping, "path_string_ids").List().Get(0).Uint()); err != nil {
		return f, err
	}
	if has(mapping, "build_id") {
		var id string
		id, err = r.text("build_ids", get(mapping, "build_id").Uint())
		f.BuildID = hex.EncodeToString([]byte(id))
	}
	return f, err
}

// replay puts the events into the order of their times, leaves events of the
// same time as they are, and makes slices of them.
func (r *reader) replay() error {
	slices.SortStableFunc(r.events, func(a, b *event) int { return cmp.Compare(a.at, b.at) })
	flows := make(map[uint64]int)
	for _, e := range r.events {
		s := &e.slice
		t := s.Track
		switch e.kind {
		case 1:
			r.trace.Slices = append(r.trace.Slices, s)
			t.open = append(t.open, s)
		case 2:
			n := len(t.open) - 1
			if n < 0 {
				return fmt.Errorf("nothing ends on track %+v at %d", t, e.at)
			}
			begun := t.open[n]
			t.open = t.open[:n]
			begun.End = e.at
			for k, v := range s.Notes {
				begun.Notes[k] = v
			}
			begun.FlowEnd = append(begun.FlowEnd, s.FlowEnd...)
		case 3:
			s.Instant, s.End = true, e.at
			r.trace.Slices = append(r.trace.Slices, s)
		default:
			return fmt.Errorf("an event of type %d", e.kind)
		}
		for _, id := range s.Flow {
			if flows[id]++; flows[id] != 1 {
				return fmt.Errorf("flow %d begins twice, or after its end", id)
			}
		}
		for _, id := range s.FlowEnd {
			if flows[id]++; flows[id] != 2 {
				return fmt.Errorf("flow %d ends before its beginning", id)
			}
		}
	}
	for id, n := range flows {
		if n != 2 {
			return fmt.Errorf("flow %d has one end", id)
		}
	}
	return nil
}
