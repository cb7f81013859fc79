package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// Pprof returns the waits of a report as a gzip'd profile.proto: contentions/count and
// delay/nanoseconds, with the labels lock and kind, and thread. Each file is a mapping with
// its build ID, at an address that is invented; address - memory_start is the offset in the
// file, of a return address one less.
func Pprof(r *Report) ([]byte, error) {
	c := converter{
		r: r, mappings: make(map[[2]string]*profile.Mapping), locations: make(map[Frame]*profile.Location), functions: make(map[string]*profile.Function),
		out: &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}, DefaultSampleType: "delay",
			TimeNanos: r.Begun, DurationNanos: r.Duration,
		},
	}
	samples := make(map[group]*profile.Sample)
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Event != "" {
			continue
		}
		g := group{s.Stack, "", s.Kind, s.Lock, s.TID, false}
		if samples[g] == nil {
			samples[g] = c.sample(s)
		}
		samples[g].Value[0]++
		samples[g].Value[1] += s.Value
	}
	if err := c.out.CheckValid(); err != nil {
		return nil, fmt.Errorf("writing a profile: %w", err)
	}
	var b bytes.Buffer
	if err := c.out.Write(&b); err != nil {
		return nil, fmt.Errorf("writing a profile: %w", err)
	}
	return b.Bytes(), nil
}

// converter makes a profile.proto.
type converter struct {
	r         *Report
	out       *profile.Profile
	mappings  map[[2]string]*profile.Mapping
	locations map[Frame]*profile.Location
	functions map[string]*profile.Function
}

// sample adds a sample without a value.
func (c *converter) sample(s *Sample) *profile.Sample {
	out := &profile.Sample{Value: []int64{0, 0}, Label: make(map[string][]string), NumLabel: make(map[string][]int64)}
	for key, value := range map[string]string{"kind": s.Kind, "lock": s.Lock} {
		if value != "" {
			out.Label[key] = []string{value}
		}
	}
	if s.TID != 0 {
		out.NumLabel["thread"] = []int64{int64(s.TID)}
	}
	if s.Stack >= 0 {
		for _, f := range c.r.Stacks[s.Stack] {
			out.Location = append(out.Location, c.location(f))
		}
	}
	c.out.Sample = append(c.out.Sample, out)
	return out
}

// spaceBits is the room that each file has in the invented address space.
const spaceBits = 40

func (c *converter) location(f Frame) *profile.Location {
	l := c.locations[f]
	if l != nil {
		return l
	}
	l = &profile.Location{ID: uint64(len(c.out.Location) + 1)}
	if f.Path == "" || f.Offset >= 1<<spaceBits {
		name := f.label()
		if f.Path != "" {
			name = fmt.Sprintf("%s+%#x", f.Path, f.Offset)
		}
		l.Line = []profile.Line{{Function: c.function(name)}}
	} else {
		l.Mapping = c.mapping(f.Path, f.BuildID)
		l.Address = l.Mapping.Start + f.call()
	}
	c.locations[f] = l
	c.out.Location = append(c.out.Location, l)
	return l
}

func (c *converter) mapping(path, id string) *profile.Mapping {
	m := c.mappings[[2]string{path, id}]
	if m == nil {
		n := uint64(len(c.out.Mapping) + 1)
		m = &profile.Mapping{ID: n, Start: n << spaceBits, Limit: (n + 1) << spaceBits, File: path, BuildID: id}
		c.mappings[[2]string{path, id}] = m
		c.out.Mapping = append(c.out.Mapping, m)
	}
	return m
}

func (c *converter) function(name string) *profile.Function {
	f := c.functions[name]
	if f == nil {
		f = &profile.Function{ID: uint64(len(c.out.Function) + 1), Name: name, SystemName: name}
		c.functions[name] = f
		c.out.Function = append(c.out.Function, f)
	}
	return f
}

// push is a PushRequest of Pyroscope's push.v1, as JSON.
type push struct {
	Series []series `json:"series"`
}

type series struct {
	Labels  []label  `json:"labels"`
	Samples []sample `json:"samples"`
}

type label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type sample struct {
	Raw []byte `json:"rawProfile"`
	ID  string `json:"ID"`
}

// PushV1 returns a PushRequest with the waits of a report, in the JSON of protobuf. The ID of a
// profile follows from the report.
func PushV1(r *Report) ([]byte, error) {
	raw, err := Pprof(r)
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%08x-%04x-4%03x-8000-%012x", r.Key>>32, r.Key>>16&0xffff, r.Key&0xfff, r.Key>>12&0xf)
	one := series{Labels: append([]label{{"__name__", "mutex"}, {"service_name", service}}, labels(r)...), Samples: []sample{{raw, id}}}
	body, err := json.Marshal(push{[]series{one}})
	if err != nil {
		return nil, fmt.Errorf("writing a profile: %w", err)
	}
	return body, nil
}

// service is the name of what is profiled.
const service = "ustack"

// labels returns what a report's profiles are found by, without what is unknown.
func labels(r *Report) []label {
	return slices.DeleteFunc([]label{{"device", r.Device}, {"os", r.OS}, {"kernel", r.Kernel}, {"arch", r.Arch}},
		func(l label) bool { return l.Value == "" })
}

// Ingest returns the path and the query by which Pyroscope's older API takes the profile of a
// report, as pprof: https://grafana.com/docs/pyroscope, "Server HTTP API".
func Ingest(r *Report) string {
	var of []string
	for _, l := range labels(r) {
		of = append(of, l.Name+"="+plain(l.Value))
	}
	query := url.Values{"name": {service + "{" + strings.Join(of, ",") + "}"}, "format": {"pprof"}, "spyName": {service}}
	if r.Begun != 0 {
		const second = int64(1e9)
		query.Set("from", strconv.FormatInt(r.Begun/second, 10))
		query.Set("until", strconv.FormatInt((r.Begun+r.Duration)/second, 10))
	}
	return "/ingest?" + query.Encode()
}

// plain returns a label's value without what separates labels in a name of that API.
func plain(value string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(`{},="`, c) {
			return '_'
		}
		return c
	}, value)
}
