package profiles

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// OTLP returns a ProfilesData with a report, which is an ExportProfilesServiceRequest, too, as
// these have the same fields: a profile of waits, with a value
// of nanoseconds for each, and one of other events, with how many there were.
//
// Each file is a mapping from 0 on, with its build ID as an attribute, so that addresses are
// offsets in the file; of a return address it is one less, as a place in the call. Locations
// at which a thread was have the attribute ustack.ran.
func OTLP(r *Report) ([]byte, error) {
	all := pprofile.NewProfiles()
	w := newWriter(all.Dictionary(), r)
	resource := all.ResourceProfiles().AppendEmpty()
	for _, a := range []attribute{
		{key: "service.name", text: "ustack"}, {key: "os.type", text: "linux"}, {key: "os.description", text: r.OS}, {key: "os.version", text: r.Kernel},
		{key: "host.arch", text: r.Arch}, {key: "ustack.device", text: r.Device}, {key: "ustack.report", text: fmt.Sprintf("%016x", r.Key)},
	} {
		if a.text != "" {
			resource.Resource().Attributes().PutStr(a.key, a.text)
		}
	}
	scope := resource.ScopeProfiles().AppendEmpty()
	scope.Scope().SetName("ustack")
	for i, kind := range []struct{ name, unit string }{{"delay", "nanoseconds"}, {"events", "count"}} {
		p := pprofile.NewProfile()
		w.profile(p, i > 0)
		if p.Samples().Len() == 0 {
			continue
		}
		p.SampleType().SetTypeStrindex(w.text(kind.name))
		p.SampleType().SetUnitStrindex(w.text(kind.unit))
		var id [16]byte
		binary.BigEndian.PutUint64(id[:], r.Key)
		id[15] = byte(i)
		p.SetProfileID(id)
		p.SetTime(pcommon.Timestamp(max(r.Begun, 0)))
		p.SetDurationNano(uint64(max(r.Duration, 0)))
		p.MoveTo(scope.Profiles().AppendEmpty())
	}
	request, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(all)
	if err != nil {
		return nil, fmt.Errorf("writing a profile: %w", err)
	}
	return request, nil
}

// writer fills a dictionary.
//
// Invariant: the first entry of each table is empty, and the others differ.
type writer struct {
	to         pprofile.ProfilesDictionary
	r          *Report
	texts      map[string]int32
	attributes map[attribute]int32
	mappings   map[[2]string]int32
	functions  map[string]int32
	locations  map[Frame]int32
	stacks     map[int]int32
}

// attribute is a key with a text, a number or, without either, true.
type attribute struct {
	key, text string
	number    int64
}

func newWriter(to pprofile.ProfilesDictionary, r *Report) *writer {
	to.StringTable().Append("")
	to.AttributeTable().AppendEmpty()
	to.MappingTable().AppendEmpty()
	to.FunctionTable().AppendEmpty()
	to.LocationTable().AppendEmpty()
	to.StackTable().AppendEmpty()
	to.LinkTable().AppendEmpty()
	return &writer{
		to: to, r: r, texts: map[string]int32{"": 0}, attributes: make(map[attribute]int32), mappings: make(map[[2]string]int32),
		functions: make(map[string]int32), locations: make(map[Frame]int32), stacks: map[int]int32{-1: 0},
	}
}

func (w *writer) text(s string) int32 {
	n, ok := w.texts[s]
	if !ok {
		n = int32(w.to.StringTable().Len())
		w.to.StringTable().Append(s)
		w.texts[s] = n
	}
	return n
}

func (w *writer) attribute(a attribute) int32 {
	n, ok := w.attributes[a]
	if !ok {
		n = int32(w.to.AttributeTable().Len())
		row := w.to.AttributeTable().AppendEmpty()
		row.SetKeyStrindex(w.text(a.key))
		switch {
		case a.text != "":
			row.Value().SetStr(a.text)
		case a.number != 0:
			row.Value().SetInt(a.number)
		default:
			row.Value().SetBool(true)
		}
		w.attributes[a] = n
	}
	return n
}

func (w *writer) mapping(path, id string) int32 {
	n, ok := w.mappings[[2]string{path, id}]
	if !ok {
		n = int32(w.to.MappingTable().Len())
		row := w.to.MappingTable().AppendEmpty()
		row.SetMemoryLimit(math.MaxInt64)
		row.SetFilenameStrindex(w.text(path))
		if id != "" {
			row.AttributeIndices().Append(w.attribute(attribute{key: "process.executable.build_id.gnu", text: id}))
		}
		w.mappings[[2]string{path, id}] = n
	}
	return n
}

func (w *writer) location(f Frame) int32 {
	n, ok := w.locations[f]
	if !ok {
		n = int32(w.to.LocationTable().Len())
		row := w.to.LocationTable().AppendEmpty()
		row.AttributeIndices().Append(w.attribute(attribute{key: "profile.frame.type", text: "native"}))
		if f.Path == "" {
			row.Lines().AppendEmpty().SetFunctionIndex(w.function(f.label()))
		} else {
			row.SetMappingIndex(w.mapping(f.Path, f.BuildID))
			row.SetAddress(f.call())
		}
		if f.Ran {
			row.AttributeIndices().Append(w.attribute(attribute{key: "ustack.ran"}))
		}
		w.locations[f] = n
	}
	return n
}

func (w *writer) function(name string) int32 {
	n, ok := w.functions[name]
	if !ok {
		n = int32(w.to.FunctionTable().Len())
		row := w.to.FunctionTable().AppendEmpty()
		row.SetNameStrindex(w.text(name))
		row.SetSystemNameStrindex(w.text(name))
		w.functions[name] = n
	}
	return n
}

func (w *writer) stack(i int) int32 {
	n, ok := w.stacks[i]
	if !ok {
		var list []int32
		for _, f := range w.r.Stacks[i] {
			list = append(list, w.location(f))
		}
		n = int32(w.to.StackTable().Len())
		w.to.StackTable().AppendEmpty().LocationIndices().FromRaw(list)
		w.stacks[i] = n
	}
	return n
}

// group is what samples have in common that are one sample of a profile. Those without a time
// are another one.
type group struct {
	stack             int
	event, kind, lock string
	tid               int32
	timed             bool
}

// profile adds the waits, or the other events, to a profile.
func (w *writer) profile(p pprofile.Profile, events bool) {
	groups := make(map[group]pprofile.Sample)
	for i := range w.r.Samples {
		s := &w.r.Samples[i]
		if s.Event != "" != events {
			continue
		}
		g := group{s.Stack, s.Event, s.Kind, s.Lock, s.TID, s.Time > 0 && !events}
		row, ok := groups[g]
		if !ok {
			row = p.Samples().AppendEmpty()
			row.SetStackIndex(w.stack(s.Stack))
			w.describe(row, s)
			groups[g] = row
		}
		switch {
		case g.timed:
			row.Values().Append(s.Value)
			row.TimestampsUnixNano().Append(uint64(s.Time))
		case row.Values().Len() == 0:
			row.Values().Append(s.Value)
		default:
			row.Values().SetAt(0, row.Values().At(0)+s.Value)
		}
	}
}

// describe gives a sample its attributes.
func (w *writer) describe(row pprofile.Sample, s *Sample) {
	for _, a := range []attribute{
		{key: "ustack.event", text: s.Event}, {key: "ustack.lock.kind", text: s.Kind}, {key: "ustack.lock", text: s.Lock},
		{key: "thread.id", number: int64(s.TID)},
	} {
		if a.text != "" || a.number != 0 {
			row.AttributeIndices().Append(w.attribute(a))
		}
	}
}
