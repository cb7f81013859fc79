package profiles

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// specimen is a report with frames of all kinds.
func specimen() *Report {
	app, lib, none := "/opt/app", "/lib/libc.so.6", "/opt/none"
	return &Report{
		Key: 0x123456789abcdef0, Device: "boot", OS: "Debian", Begun: 1_800_000_000_000_000_000, Duration: 5_000_000_000,
		Stacks: [][]Frame{
			{{Path: lib, BuildID: "ab01", Offset: 0x97d8c, Ran: true}, {Path: app, BuildID: "cd", Offset: 0x1472}, {Path: app, BuildID: "cd", Offset: 0x1473, Ran: true}},
			{{Reason: "anonymous", Ran: true}, {Path: none, Offset: 1}, {Path: app, BuildID: "cd", Offset: 0}, {Reason: "lost"}},
			{{Path: app, BuildID: "ff", Offset: math.MaxInt64, Ran: true}, {Path: app, BuildID: "cd", Offset: 0x1473}},
		},
		Samples: []Sample{
			{Stack: 0, Time: 1_800_000_000_000_000_001, Value: 100, TID: 7, Kind: "mutex", Lock: "pool"},
			{Stack: 0, Time: 1_800_000_000_000_000_002, Value: 50, TID: 7, Kind: "mutex", Lock: "pool"},
			{Stack: 0, Value: 25, TID: 7, Kind: "mutex", Lock: "pool"}, {Stack: 0, Value: 25, TID: 7, Kind: "mutex", Lock: "pool"},
			{Stack: 1, Time: 1_800_000_000_000_000_003, Value: 1, TID: 8, Kind: "join"},
			{Stack: -1, Time: 1_800_000_000_000_000_004, Value: 2},
			{Stack: 2, Event: "open", Value: 9}, {Stack: 2, Event: "read", Value: 4},
		},
	}
}

// decoded returns the frames of a stack of a profile.
func decoded(d pprofile.ProfilesDictionary, stack int32) (frames []Frame) {
	text := func(n int32) string { return d.StringTable().At(int(n)) }
	for _, n := range d.StackTable().At(int(stack)).LocationIndices().All() {
		l := d.LocationTable().At(int(n))
		var f Frame
		attributes, err := pprofile.FromAttributeIndices(d.AttributeTable(), l, d)
		if err != nil {
			return nil
		}
		_, f.Ran = attributes.Get("ustack.ran")
		if l.MappingIndex() == 0 {
			name := text(d.FunctionTable().At(int(l.Lines().At(0).FunctionIndex())).NameStrindex())
			f.Reason = name[1 : len(name)-1]
		} else {
			m := d.MappingTable().At(int(l.MappingIndex()))
			f.Path, f.Offset = text(m.FilenameStrindex()), l.Address()-m.MemoryStart()+m.FileOffset()
			attributes, err := pprofile.FromAttributeIndices(d.AttributeTable(), m, d)
			if err != nil || f.Offset > m.MemoryLimit() {
				return nil
			}
			if id, ok := attributes.Get("process.executable.build_id.gnu"); ok {
				f.BuildID = id.Str()
			}
			if !f.Ran {
				f.Offset++
			}
		}
		frames = append(frames, f)
	}
	return frames
}

// TestOTLP: the decoder of OpenTelemetry has the frames bit by bit, and the values of all
// samples.
func TestOTLP(t *testing.T) {
	r := specimen()
	body, err := OTLP(r)
	if err != nil {
		t.Fatal(err)
	}
	all, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(body)
	if err != nil {
		t.Fatal(err)
	}
	d := all.Dictionary()
	seen := make(map[string]int64)
	for i, p := range all.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().All() {
		if got := d.StringTable().At(int(p.SampleType().TypeStrindex())); got != []string{"delay", "events"}[i] {
			t.Errorf("profile %d has %s", i, got)
		}
		if int64(p.Time()) != r.Begun || int64(p.DurationNano()) != r.Duration {
			t.Errorf("profile %d is of %v, %v", i, p.Time(), p.DurationNano())
		}
		for _, s := range p.Samples().All() {
			frames := decoded(d, s.StackIndex())
			want := slices.IndexFunc(r.Stacks, func(stack []Frame) bool {
				stack = slices.Clone(stack)
				for k := range stack {
					if stack[k].Path != "" && stack[k].Offset == 0 {
						stack[k].Offset = 1 // a return address of 0 has no call before it
					}
				}
				return slices.Equal(stack, frames)
			})
			if want < 0 && s.StackIndex() != 0 {
				t.Errorf("a stack that is not in the report: %+v", frames)
			}
			attributes, err := pprofile.FromAttributeIndices(d.AttributeTable(), s, d)
			if err != nil {
				t.Fatal(err)
			}
			name := "none"
			for _, key := range []string{"ustack.lock.kind", "ustack.event"} {
				if v, ok := attributes.Get(key); ok {
					name = v.Str()
				}
			}
			if n := s.TimestampsUnixNano().Len(); n != 0 && n != s.Values().Len() {
				t.Errorf("%d times of %d values", n, s.Values().Len())
			}
			for _, v := range s.Values().All() {
				seen[name] += v
			}
			for _, at := range s.TimestampsUnixNano().All() {
				seen["times"] += int64(at) - r.Begun
			}
		}
	}
	for name, want := range map[string]int64{"mutex": 200, "join": 1, "none": 2, "open": 9, "read": 4, "times": 1 + 2 + 3 + 4} {
		if seen[name] != want {
			t.Errorf("%s: %d, want %d", name, seen[name], want)
		}
	}
	checkTables(t, d)
}

// checkTables checks that each table begins with an empty entry and has no other twice.
func checkTables(t *testing.T, d pprofile.ProfilesDictionary) {
	t.Helper()
	texts := d.StringTable().AsRaw()
	if texts[0] != "" || len(slices.Compact(slices.Sorted(slices.Values(texts)))) != len(texts) {
		t.Errorf("texts: %q", texts)
	}
	for i, m := range d.MappingTable().All() {
		for k := range i {
			if d.MappingTable().At(k).Equal(m) {
				t.Errorf("mappings %d and %d are the same", k, i)
			}
		}
	}
	for i, l := range d.LocationTable().All() {
		for k := range i {
			if d.LocationTable().At(k).Equal(l) {
				t.Errorf("locations %d and %d are the same", k, i)
			}
		}
	}
}

// TestPushV1: the pprof in a request has the waits, and places in files with build IDs.
func TestPushV1(t *testing.T) {
	body, err := PushV1(specimen())
	if err != nil {
		t.Fatal(err)
	}
	var request push
	if err := json.Unmarshal(body, &request); err != nil || len(request.Series) != 1 {
		t.Fatal(err, string(body))
	}
	labels := make(map[string]string)
	for _, l := range request.Series[0].Labels {
		labels[l.Name] = l.Value
	}
	if labels["__name__"] != "mutex" || labels["service_name"] != "ustack" || labels["device"] != "boot" || request.Series[0].Samples[0].ID != "12345678-9abc-4ef0-8000-00000000000d" {
		t.Errorf("%v, %s", labels, request.Series[0].Samples[0].ID)
	}
	p, err := profile.Parse(bytes.NewReader(request.Series[0].Samples[0].Raw))
	if err != nil {
		t.Fatal(err)
	}
	var count, ns int64
	places := make(map[Frame]bool)
	for _, s := range p.Sample {
		count += s.Value[0]
		ns += s.Value[1]
		for _, l := range s.Location {
			if l.Mapping == nil {
				places[Frame{Reason: l.Line[0].Function.Name}] = true
				continue
			}
			places[Frame{Path: l.Mapping.File, BuildID: l.Mapping.BuildID, Offset: l.Address - l.Mapping.Start + l.Mapping.Offset}] = true
		}
	}
	if count != 6 || ns != 203 {
		t.Errorf("%d waits of %d ns", count, ns)
	}
	for _, want := range []Frame{
		{Path: "/lib/libc.so.6", BuildID: "ab01", Offset: 0x97d8c}, {Path: "/opt/app", BuildID: "cd", Offset: 0x1471}, {Path: "/opt/app", BuildID: "cd", Offset: 0x1473},
		{Reason: "[anonymous]"}, {Path: "/opt/none"}, {Reason: "[lost]"},
	} {
		if !places[want] {
			t.Errorf("%+v is missing in %+v", want, places)
		}
	}
}
