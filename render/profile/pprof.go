//go:build !device

package profile

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/tracefs/text"
)

// Pprof writes a gzip'd profile.proto of github.com/google/pprof: samples/count
// of stacks, contentions/count and delay/nanoseconds of waits, with the labels
// pid, comm and lock.
//
// Each file is a mapping with its build ID, at an address that is invented:
// address - memory_start + file_offset is the offset in the file. As
// profile.proto wants it, the address of a frame that will be returned to is
// in the call, one before the offset that the kernel gave. Functions, source
// lines and inlined functions are there if stacks have names; frames without a
// file have a function that says why.
func Pprof(w io.Writer, p *Profile) error {
	c := &converter{
		p: p, names: newNames(p), out: &profile.Profile{SampleType: p.unit.types()},
		stacks: make([][]*profile.Location, len(p.stacks)), labels: make([]map[string][]string, len(p.labels)), mappings: make(map[sameFile]*profile.Mapping), locations: make(map[place]*profile.Location), functions: make(map[function]*profile.Function),
	}
	c.mapFiles()
	c.out.Sample = make([]*profile.Sample, 0, len(p.samples))
	for i := range p.samples {
		c.sample(&p.samples[i])
	}
	if p.unit != Samples {
		c.out.DefaultSampleType = c.out.SampleType[1].Type
	}
	return c.out.Write(w)
}

func (u Unit) types() []*profile.ValueType {
	switch u {
	case Samples:
		return []*profile.ValueType{{Type: "samples", Unit: "count"}}
	case Waits:
		return []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}
	}
	return []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "ticks"}}
}

// converter makes a profile.proto.
type converter struct {
	p         *Profile
	names     *names
	out       *profile.Profile
	stacks    [][]*profile.Location // that have been made; samples share them
	labels    []map[string][]string // the same
	mappings  map[sameFile]*profile.Mapping
	locations map[place]*profile.Location
	functions map[function]*profile.Function
}

// place is what makes a location: an address in a mapping, or a name. A function
// that was left out has both.
type place struct {
	mapping *profile.Mapping
	address uint64
	name    string
}

type function struct{ name, file string }

// spaceBits is the room that each file has in the invented address space.
const spaceBits = 40

const pageSize = 4096

// mapped reports whether a frame can have an address.
func (f *Frame) mapped() bool { return f.File != nil && f.Offset < 1<<spaceBits }

// mapFiles makes a mapping of each file, as large as its frames need it. The
// first one counts as the program.
func (c *converter) mapFiles() {
	var files []*filemap.File
	for i := range c.p.stacks {
		for k, f := range c.p.stacks[i].frames {
			if skipped, _ := Skipped(c.p.stacks[i].function(k)); skipped != nil {
				files = c.mapFrame(files, skipped, false)
			}
			files = c.mapFrame(files, &f, k == 0)
		}
	}
	slices.SortStableFunc(files, func(a, b *filemap.File) int { return library(a) - library(b) })
	for i, f := range files {
		m := c.mappings[sameFile{f.Path, f.BuildID}]
		m.ID = uint64(i + 1)
		m.Start, m.Limit = m.ID<<spaceBits+m.Offset, m.ID<<spaceBits+m.Limit
		c.out.Mapping = append(c.out.Mapping, m)
	}
}

// mapFrame makes room for a frame in the mapping of its file, and lists the
// file if it is new.
func (c *converter) mapFrame(files []*filemap.File, f *Frame, ran bool) []*filemap.File {
	if !f.mapped() {
		return files
	}
	start := f.call(ran) &^ (pageSize - 1)
	key := sameFile{f.File.Path, f.File.BuildID}
	m := c.mappings[key]
	if m == nil {
		m = &profile.Mapping{File: valid(f.File.Path), BuildID: f.File.BuildID.Hex(), Offset: start, Limit: start + pageSize}
		c.mappings[key] = m
		files = append(files, f.File)
	}
	m.Offset, m.Limit = min(m.Offset, start), max(m.Limit, start+pageSize)
	return files
}

// library is 1 if a file's name is a shared library's.
func library(f *filemap.File) int {
	if strings.HasSuffix(f.Path, ".so") || strings.Contains(f.Path, ".so.") {
		return 1
	}
	return 0
}

func (c *converter) sample(s *sample) {
	out := &profile.Sample{Value: []int64{s.Count}, Label: c.labelsOf(s.labels)}
	if c.p.unit != Samples {
		out.Value = append(out.Value, int64(s.Time))
	}
	if c.stacks[s.stack] == nil {
		c.stacks[s.stack] = c.stack(s.stack)
	}
	out.Location = c.stacks[s.stack]
	c.out.Sample = append(c.out.Sample, out)
}

// labelsOf returns labels by their number.
func (c *converter) labelsOf(number int32) map[string][]string {
	if c.labels[number] == nil {
		c.labels[number] = labelsOf(&c.p.labels[number])
	}
	return c.labels[number]
}

func labelsOf(l *Labels) map[string][]string {
	out := make(map[string][]string)
	label := func(key, value string) {
		if value != "" {
			out[key] = []string{valid(value)}
		}
	}
	if l.PID > 0 {
		label("pid", strconv.Itoa(int(l.PID)))
	}
	label("comm", l.Comm)
	label("lock", l.Lock)
	label("wait", l.Wait)
	return out
}

// stack returns the locations of a stack, innermost first; one at least.
func (c *converter) stack(id int32) []*profile.Location {
	if id == otherStacks {
		return []*profile.Location{c.word(others)}
	}
	var list []*profile.Location
	st := &c.p.stacks[id]
	for k := range st.frames {
		fn := st.function(k)
		list = append(list, c.location(&st.frames[k], fn, k == 0))
		if skipped, its := Skipped(fn); skipped != nil {
			list = append(list, c.location(skipped, its, false))
		}
	}
	switch {
	case st.incomplete():
		list = append(list, c.word(truncated))
	case len(list) == 0:
		list = append(list, c.word(noFrames))
	}
	return list
}

// word returns the location of what has only a name.
func (c *converter) word(name string) *profile.Location {
	at := place{name: name}
	loc := c.locations[at]
	if loc == nil {
		loc = c.add(at)
		loc.Line = []profile.Line{{Function: c.function(function{name: name})}}
	}
	return loc
}

func (c *converter) location(f *Frame, fn *symbol.Function, ran bool) *profile.Location {
	if !f.mapped() {
		return c.word(c.names.of(f, fn)[0].name)
	}
	m := c.mappings[sameFile{f.File.Path, f.File.BuildID}]
	at := place{mapping: m, address: m.Start + f.call(ran) - m.Offset}
	if f.Inferred {
		at.name = text.InferredMark
	}
	loc := c.locations[at]
	if loc != nil {
		return loc
	}
	loc = c.add(at)
	if named(f, fn) == nil {
		if f.Inferred { // to have the mark
			loc.Line = []profile.Line{{Function: c.function(function{name: c.names.of(f, fn)[0].name})}}
		}
		return loc
	}
	m.HasFunctions = true
	lines := c.names.of(f, fn)
	for _, l := range lines {
		loc.Line = append(loc.Line, profile.Line{Function: c.function(function{l.name, l.file}), Line: int64(l.line)})
		m.HasFilenames = m.HasFilenames || l.file != ""
		m.HasLineNumbers = m.HasLineNumbers || l.line > 0
	}
	m.HasInlineFrames = m.HasInlineFrames || len(lines) > 1
	return loc
}

func (c *converter) add(at place) *profile.Location {
	loc := &profile.Location{ID: uint64(len(c.out.Location) + 1), Mapping: at.mapping, Address: at.address}
	c.locations[at] = loc
	c.out.Location = append(c.out.Location, loc)
	return loc
}

func (c *converter) function(f function) *profile.Function {
	fn := c.functions[f]
	if fn == nil {
		name := valid(f.name)
		fn = &profile.Function{ID: uint64(len(c.out.Function) + 1), Name: name, SystemName: name, Filename: valid(f.file)}
		c.functions[f] = fn
		c.out.Function = append(c.out.Function, fn)
	}
	return fn
}
