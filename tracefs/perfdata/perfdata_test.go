package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/perf"
	"ustack/tracefs/perfdata/perfdatatest"
)

// read returns the text of a file, and the error that its reading ends with, nil for none.
func read(data []byte) (string, error) {
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	s := f.Source(binary.Options{Events: true}, nil)
	var b tracefs.Batch
	var out strings.Builder
	for {
		err := s.Next(&b)
		out.Write(b.Text)
		if err == io.EOF {
			return out.String(), nil
		}
		if err != nil {
			return out.String(), err
		}
	}
}

// lines are those of a text.
func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

// TestForms: whatever samples consist of, in both byte orders, as a file, from a pipe and
// compressed in pieces of any size, the records are those that were made, in order of time.
func TestForms(t *testing.T) {
	const seeds, rounds = 4, 12
	for seed := range uint64(seeds) {
		m := newModel(seed, seed%2 == 1)
		m.fill(rounds)
		want := strings.Join(m.lines, "\n") + "\n"
		forms := map[string][]byte{"file": m.Write(), "pipe": m.Pipe()}
		for _, each := range []int{7, 50, 60000} {
			for _, typ := range []uint32{perfdatatest.Compressed, perfdatatest.Compressed2} {
				packed, err := m.Compress(typ, each)
				if err != nil {
					t.Fatal(err)
				}
				name := "compressed"
				if typ == perfdatatest.Compressed2 {
					name = "compressed2"
				}
				forms[name] = packed.Write()
				forms[name+" pipe"] = packed.Pipe()
			}
			for name, data := range forms {
				if got, err := read(data); got != want || err != nil {
					t.Fatalf("seed %d, %s, pieces of %d: %v\n%s\nwant:\n%s", seed, name, each, err, got, want)
				}
			}
		}
	}
}

// TestCut: of a file that ends too early, each whole record is read, and the error says
// where it ends.
func TestCut(t *testing.T) {
	m := newModel(4, false)
	m.fill(6)
	whole := m.Write()
	dataAt := bytes.Index(whole, m.Records[0])
	at, last := dataAt, 0
	for _, r := range m.Records {
		for _, cut := range []int{at, at + 1, at + 8, at + len(r) - 1} {
			got, err := read(whole[:cut])
			n := strings.Count(got, "<user stack trace>")
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "byte ") {
				t.Fatalf("cut at byte %d: %v", cut, err)
			}
			if n != last {
				t.Fatalf("cut at byte %d: %d samples, %d are whole", cut, n, last)
			}
		}
		at += len(r)
		if m.Records[0][0] != r[0] && r[0] == unix.PERF_RECORD_SAMPLE {
			last++
		}
	}
	if last == 0 {
		t.Fatal("no samples")
	}
}

// TestCutFeature: a file that ends in a section that is not used is cut, too.
func TestCutFeature(t *testing.T) {
	const unused = 3 // HEADER_HOSTNAME
	m := newModel(4, false)
	m.fill(6)
	m.Features[unused] = make([]byte, 64)
	whole := m.Write()
	want, err := read(whole)
	if err != nil {
		t.Fatal(err)
	}
	at := len(whole) - 64
	got, err := read(whole[:at+63])
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), fmt.Sprintf("byte %d:", at)) || got != want {
		t.Errorf("%v, %d lines of %d", err, len(lines(got)), len(lines(want)))
	}
}

// TestCutPipe: a pipe that ends inside of what follows a record, as formats of events and AUX
// data do, is cut, too.
func TestCutPipe(t *testing.T) {
	m := newModel(4, false)
	m.fill(6)
	const aux = 64
	m.Records = append(m.Records, append(m.Record(recordAuxTrace, 0, uint64(aux), uint64(0), uint64(0), uint32(0), int32(7), uint32(0), uint32(0)), make([]byte, aux)...))
	whole := m.Pipe()
	want, err := read(whole)
	if err != nil || len(lines(want)) == 0 {
		t.Fatalf("%d lines, %v", len(lines(want)), err)
	}
	formats := bytes.Index(whole, m.Bytes(uint32(recordTracingData), uint16(0))) + 12
	if got, err := read(whole[:formats+5]); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), fmt.Sprintf("byte %d:", formats)) || got != "" {
		t.Errorf("cut in the formats: %v, %q", err, got)
	}
	for _, left := range []int{aux, 1} {
		got, err := read(whole[:len(whole)-left])
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), fmt.Sprintf("byte %d:", len(whole)-aux)) || got != want {
			t.Errorf("cut %d bytes before the end: %v, %d lines of %d", left, err, len(lines(got)), len(lines(want)))
		}
	}
}

// TestBadRecord: a record whose size is impossible ends the reading at its byte. One that
// is malformed inside is left out.
func TestBadRecord(t *testing.T) {
	m := newModel(4, false)
	m.fill(6)
	want, err := read(m.Write())
	if err != nil {
		t.Fatal(err)
	}
	half := len(m.Records) / 2
	bad := m.File
	bad.Records = slices.Insert(slices.Clone(m.Records), half, m.Bytes(uint32(9), uint16(2), uint16(4)))
	got, err := read(bad.Write())
	if !errors.Is(err, ErrFormat) || !strings.HasPrefix(want, got) || len(lines(got)) == 0 {
		t.Errorf("a record of 4 bytes: %v, %d lines of %d", err, len(lines(got)), len(lines(want)))
	}
	bad.Records = slices.Insert(slices.Clone(m.Records), half, m.Record(unix.PERF_RECORD_SAMPLE, 2, m.events[0].IDs[0], uint64(1)))
	if got, err = read(bad.Write()); !errors.Is(err, ErrFormat) || got != want {
		t.Errorf("a sample of two words: %v, %d lines of %d", err, len(lines(got)), len(lines(want)))
	}
}

// TestBomb: records that decompress to very much more need no more memory than the bound.
func TestBomb(t *testing.T) {
	m := newModel(4, false)
	for range 800 {
		m.Add(unix.PERF_RECORD_AUX, 0, make([]byte, 60000))
	}
	packed, err := m.Compress(perfdatatest.Compressed, 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	data := packed.Write()
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	o := newOrdered(f, nil)
	defer o.close()
	o.most = 2 << 20
	n := 0
	for _, _, err = o.next(); err == nil; _, _, err = o.next() {
		n++
	}
	if used := len(o.slabs.all) * slabSize; err != io.EOF || n != len(m.Records) || used > o.most+4*slabSize || o.forced == 0 {
		t.Errorf("%d records of %d, %d bytes, %d times in parts: %v", n, len(m.Records), used, o.forced, err)
	}
}

// TestSideBand: mappings, names, forks and losses come in order of time, decoded.
func TestSideBand(t *testing.T) {
	for _, big := range []bool{false, true} {
		m := newModel(2, big)
		m.Attrs[0].Flags |= flagBuildID
		m.comm(7)
		const miscID = unix.PERF_RECORD_MISC_MMAP_BUILD_ID
		m.Add(unix.PERF_RECORD_MMAP2, miscID, int32(7), int32(7), uint64(0x1000), uint64(0x2000), uint64(0x3000),
			"\x14\x00\x00\x00", strings.Repeat("\xab", 20), uint32(5), uint32(2), perfdatatest.Name("/bin/x"), m.trailer(7, 1, 5000))
		m.Add(unix.PERF_RECORD_MMAP2, 0, int32(7), int32(7), uint64(0x9000), uint64(0x1000), uint64(0),
			uint32(8), uint32(1), uint64(77), uint64(3), uint32(5), uint32(2), perfdatatest.Name("/bin/y"), m.trailer(7, 1, 3000))
		m.Add(unix.PERF_RECORD_FORK, 0, int32(8), int32(7), int32(8), int32(7), uint64(4000), m.trailer(7, 1, 4000))
		m.Add(unix.PERF_RECORD_LOST, 0, uint64(1), uint64(12), m.trailer(0, 2, 6000))
		m.sample(&m.events[0], 7, 1, 4500, []uint64{1})
		data := m.Write()
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		var got []perf.Record
		f.SideBand(func(r *perf.Record) {
			c := *r
			c.Name, c.BuildID = bytes.Clone(r.Name), bytes.Clone(r.BuildID)
			got = append(got, c)
		})
		want := []perf.Record{
			{Type: unix.PERF_RECORD_COMM, PID: 7, TID: 7, Name: []byte("task7")},
			{Type: unix.PERF_RECORD_MMAP2, Time: 3000, CPU: 1, PID: 7, TID: 7, Addr: 0x9000, Len: 0x1000, Prot: 5, Flags: 2, Major: 8, Minor: 1,
				Inode: 77, InodeGeneration: 3, Name: []byte("/bin/y")},
			{Type: unix.PERF_RECORD_FORK, Time: 4000, CPU: 1, PID: 8, TID: 8, ParentPID: 7, ParentTID: 7},
			{Type: unix.PERF_RECORD_MMAP2, Misc: miscID, Time: 5000, CPU: 1, PID: 7, TID: 7, Addr: 0x1000, Len: 0x2000, Offset: 0x3000,
				Prot: 5, Flags: 2, BuildID: bytes.Repeat([]byte{0xab}, 20), Name: []byte("/bin/x")},
			{Type: unix.PERF_RECORD_LOST, Time: 6000, CPU: 2, Lost: 12},
		}
		if !slices.EqualFunc(got, want, func(a, b perf.Record) bool {
			same := bytes.Equal(a.Name, b.Name) && bytes.Equal(a.BuildID, b.BuildID)
			a.Name, b.Name, a.BuildID, b.BuildID = nil, nil, nil, nil
			return same && equalRecord(&a, &b)
		}) {
			t.Errorf("big %v:\n%+v\nwant:\n%+v", big, got, want)
		}
	}
}

func equalRecord(a, b *perf.Record) bool {
	return a.Type == b.Type && a.Misc == b.Misc && a.Time == b.Time && a.CPU == b.CPU && a.PID == b.PID && a.TID == b.TID &&
		a.ParentPID == b.ParentPID && a.ParentTID == b.ParentTID && a.Addr == b.Addr && a.Len == b.Len && a.Offset == b.Offset &&
		a.Prot == b.Prot && a.Flags == b.Flags && a.Major == b.Major && a.Minor == b.Minor && a.Inode == b.Inode &&
		a.InodeGeneration == b.InodeGeneration && a.Lost == b.Lost
}

// TestBareStacks: stacks without text have the frames, times and lines that they have with
// it, and the text of events is the same.
func TestBareStacks(t *testing.T) {
	for seed := range uint64(4) {
		m := newModel(seed, seed%2 == 1)
		m.fill(12)
		data := m.Write()
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		want, bare := summary(f, binary.Options{Events: true}), summary(f, binary.Options{Events: true, BareStacks: true})
		if want != bare || !strings.Contains(bare, "stack of") {
			t.Errorf("seed %d:\n%s\nwith text:\n%s", seed, bare, want)
		}
	}
}

// summary is what a consumer that shows stacks at their events sees of a file.
func summary(f *File, opt binary.Options) string {
	s := f.Source(opt, nil)
	var b tracefs.Batch
	var out strings.Builder
	for err := error(nil); err == nil; {
		err = s.Next(&b)
		for i := range b.Records {
			r := &b.Records[i]
			if r.Kind != tracefs.KindStack {
				out.Write(b.Raw(r))
				continue
			}
			comm, tgid := b.Who(r)
			exact, _ := b.Exact(r)
			flags, _ := b.Context(r)
			fmt.Fprintf(&out, "stack of %s-%d, %d, CPU %d at %d, %s, %d lines:", comm, r.TID, tgid, r.CPU, exact, flags, b.LinesOf(r))
			frames, text := b.StackFrames(r)
			for k := range frames {
				fmt.Fprintf(&out, " %x", frames[k].Address(text))
			}
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%d events, %d lines\n", b.Events, b.Lines)
	}
	return out.String()
}
