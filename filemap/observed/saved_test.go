package observed

import (
	"bytes"
	"io"
	"os"
	"testing"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/input"
	"ustack/tracefs/tracedat"
)

const savedFiles = "../../tracefs/tracedat/testdata/procmaps/"

// attributions reads a trace.dat with the mappings in it as evidence.
func attributions(t *testing.T, name string, each func(addr uint64, o *resolve.Attribution)) {
	t.Helper()
	trace, err := input.OpenAll([]string{name}, nil, input.Options{NoTemplates: true})
	if err != nil {
		t.Fatal(err)
	}
	processes, err := trace.Processes()
	if err != nil {
		t.Fatal(err)
	}
	res := resolve.New(resolve.Options{Sources: trace.Sources(), Attributor: newSaved(t, processes, "")})
	batches := trace.Start()
	defer batches.Close()
	for {
		b, err := batches.Next()
		res.Add(b)
		if err != nil {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			for i := range h.Records {
				if h.Records[i].Kind != tracefs.KindStack {
					continue
				}
				frames, text := h.StackFrames(&h.Records[i])
				out, _ := h.StackAttributions(i)
				for k := range frames {
					each(frames[k].Address(text), &out[k])
				}
			}
			batches.Free(res.Release(h))
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mapsOf reads a file of /proc/PID/maps.
func mapsOf(t *testing.T, name string) (all []procmap.Mapping) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		m, err := procmap.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func covering(all []procmap.Mapping, addr uint64) *procmap.Mapping {
	for i := range all {
		if all[i].Contains(addr) {
			return &all[i]
		}
	}
	return nil
}

// TestSavedTruth: in recordings of trace-cmd no frame gets a name but that of
// the mapping that the program had there, and none gets a file: what was
// recorded before an exec, at fixed places, or of a program whose name was cut
// gets nothing.
func TestSavedTruth(t *testing.T) {
	for _, test := range []struct {
		name          string
		frames, named int
	}{
		{"threads.v7", 44, 44}, {"threads.v6", 44, 44}, {"blank", 44, 26}, {"exec", 88, 44}, {"fixed", 88, 0}, {"norandom", 90, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			truth := mapsOf(t, savedFiles+test.name+".maps")
			frames, named := 0, 0
			attributions(t, savedFiles+test.name+".dat", func(addr uint64, o *resolve.Attribution) {
				frames++
				if o.File != nil || o.Trust != filemap.NoTrust {
					t.Errorf("%#x has file %+v", addr, o)
				}
				if o.Memory == nil {
					return
				}
				named++
				m := covering(truth, addr)
				if m == nil || m.Name != o.Memory.Name || o.Reason != filemap.VMAOffset || !o.HasOffset || o.Offset != addr-m.Start {
					t.Errorf("%#x is %+v of %s, but lies in %+v", addr, o, o.Memory.Name, m)
				}
			})
			if frames != test.frames || named != test.named {
				t.Errorf("%d frames, %d with a name, want %d and %d", frames, named, test.frames, test.named)
			}
		})
	}
}

// TestSavedAttribute: what each kind of range says, and when readings do not agree.
func TestSavedAttribute(t *testing.T) {
	stack := tracedat.Range{Start: 0x7ffe00000000, End: 0x7ffe00021000, Name: "[stack]"}
	top := tracedat.Range{Start: 0x7ffffffde000, End: 0x7ffffffff000, Name: "[stack]"}
	space := func(pid int32, exe string, ranges ...tracedat.Range) tracedat.Process {
		return tracedat.Process{PID: pid, Exe: exe, Ranges: ranges}
	}
	at := func(start uint64, name string) tracedat.Range {
		return tracedat.Range{Start: start, End: start + 0x1000, Name: name}
	}
	s := newSaved(t, []tracedat.Process{
		space(7, "/a b", at(0x400000, "/fixed"), at(0x100000000, "/a"), at(0x100001000, "/b"), at(0x100002000, "[heap]"),
			at(0x100003000, "[anon:cut"), at(0x100004000, "[vdso]"), stack, at(0xffffffffff600000, "[vsyscall]")),
		space(8, "/c", at(0x100001000, "/b"), at(0x100002000, "/c"), stack), // a thread of 7, later
		space(9, "/c", at(0x100001000, "/b"), top),
		space(10, "/c", at(0x100001000, "/b")),
	}, "")
	for _, test := range []struct {
		what      string
		tid, tgid int32
		addr      uint64
		reason    filemap.Reason
		memory    string
		offset    uint64
	}{
		{"a file", 7, tracefs.NoTID, 0x100001034, filemap.VMAOffset, "/b", 0x34},
		{"by the process", 99, 7, 0x100001034, filemap.VMAOffset, "/b", 0x34},
		{"the process unknown", 99, tracefs.NoTID, 0x100001034, filemap.NoAddressSpace, "", 0},
		{"readings agree", 8, 7, 0x100001034, filemap.VMAOffset, "/b", 0x34},
		{"readings do not", 8, 7, 0x100002034, filemap.NoAddressSpace, "", 0},
		{"a fixed place", 7, 7, 0x400010, filemap.NoAddressSpace, "", 0},
		{"a cut name", 7, 7, 0x100000010, filemap.NoAddressSpace, "", 0},
		{"heap", 7, 7, 0x100002010, filemap.Anonymous, "[heap]", 0},
		{"a cut name of memory", 7, 7, 0x100003010, filemap.Anonymous, "[anon:cut", 0},
		{"the vDSO", 7, 7, 0x100004010, filemap.VDSO, "[vdso]", 0x10},
		{"vsyscall", 7, 7, 0xffffffffff600000, filemap.NoVMA, "[vsyscall]", 0},
		{"nothing known", 7, 7, 0x100005000, filemap.NoAddressSpace, "", 0},
		{"not at random", 9, 9, 0x100001034, filemap.NoAddressSpace, "", 0},
		{"without a stack", 10, 10, 0x100001034, filemap.NoAddressSpace, "", 0},
	} {
		sub := resolve.Query{TID: test.tid, TGID: test.tgid,
			Frames:       []tracefs.Frame{{Addr: test.addr, HasAddr: true, Form: tracefs.FormPlain}},
			Attributions: []resolve.Attribution{resolve.Unnamed(filemap.NoAddressSpace)}}
		s.Attribute(&sub)
		o := sub.Attributions[0]
		memory := ""
		if o.Memory != nil {
			memory = o.Memory.Name
		}
		if o.File != nil || o.Reason != test.reason || memory != test.memory || o.Offset != test.offset {
			t.Errorf("%s: %+v %q", test.what, o, memory)
		}
	}
}
