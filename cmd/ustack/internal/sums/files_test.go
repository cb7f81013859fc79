package sums

import (
	"os"
	"testing"

	"ustack/filemap"
	"ustack/filemap/byid"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs/bpffutex"
)

// filesBy returns what finds files by a reader.
func filesBy(t *testing.T, r *procmap.Reader) *files {
	t.Helper()
	f, err := newFiles(func() (readers, error) { return readers{r, r}, nil }, byid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFiles: frames of this very process have what is mapped there, and frames of another one with
// its number have no file.
func TestFiles(t *testing.T) {
	r, err := procmap.NewReader(procmap.Options{IDs: procmap.NewIDs(nil)})
	if err != nil {
		t.Skip(err)
	}
	h, err := r.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var code, data, anonymous, vdso procmap.Mapping
	err = h.Each(func(m *procmap.Mapping) bool {
		switch {
		case m.Kind == procmap.File && m.Perms&procmap.Exec != 0 && code.End == 0:
			code = *m
		case m.Kind == procmap.File && m.Perms&procmap.Exec == 0 && data.End == 0:
			data = *m
		case m.Kind == procmap.Anonymous && anonymous.End == 0:
			anonymous = *m
		case m.Kind == procmap.VDSO:
			vdso = *m
		}
		return true
	})
	h.Close()
	if err != nil {
		t.Fatal(err)
	}
	stat, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const tick, place = 1e9 / 100, 0x10
	own := bpffutex.Futex{TGID: int32(os.Getpid()), Memory: 1, Born: stat.StartTime*tick - suspended()}
	other := own
	other.Born += 3600e9
	f := filesBy(t, r)
	defer f.close()
	if f.walks, err = newWalks(f, nil, false, new(copierOf)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		of      bpffutex.Futex
		mapping *procmap.Mapping
		reason  filemap.Reason
	}{
		{"code", own, &code, filemap.NoReason}, {"data", own, &data, filemap.NoAddressSpace}, {"anonymous", own, &anonymous, filemap.NoAddressSpace},
		{"vdso", own, &vdso, filemap.VDSO}, {"nothing", own, &procmap.Mapping{Start: 0, End: 1}, filemap.NoAddressSpace},
		{"another process", other, &code, filemap.NoAddressSpace},
	} {
		if test.mapping.End == 0 {
			t.Logf("this process has no %s", test.name)
			continue
		}
		s := f.stack(&bpffutex.Wait{Futex: test.of, Code: f.program(&test.of).pages, Stack: []bpffutex.Frame{{Number: test.mapping.Start + place, IsAddress: true}}})
		o := &s.Attributions[0]
		switch {
		case o.Reason != test.reason || (o.File == nil) != (test.reason != filemap.NoReason):
			t.Errorf("%s: %+v, want reason %q", test.name, o, test.reason)
		case o.File != nil && (o.File.Path != code.Name || o.Offset != code.Offset+place || !o.HasOffset || o.Trust != filemap.Late):
			t.Errorf("%s: %+v of %+v", test.name, o, o.File)
		}
	}
}

// noProcess is above all process IDs (PID_MAX_LIMIT).
const noProcess = 1<<22 + 1

// emptyFiles returns files that know no process.
func emptyFiles(t *testing.T) *files {
	t.Helper()
	r, err := procmap.NewReader(procmap.Options{})
	if err != nil {
		t.Skip(err)
	}
	f := filesBy(t, r)
	t.Cleanup(f.close)
	return f
}

// TestFilesByID: a build ID is a file that the process has mapped; one that it has twice, or of
// zeros only, is none.
func TestFilesByID(t *testing.T) {
	f := emptyFiles(t)
	of := bpffutex.Futex{TGID: noProcess, Memory: 1, Born: 1}
	id, twice := filemap.BuildID{1, 2, 3, 4}, filemap.BuildID{4, 3, 2, 1}
	p := f.program(&of)
	p.paths[id], p.paths[twice] = "/bin/w", ""
	w := &bpffutex.Wait{Futex: of, Stack: []bpffutex.Frame{{BuildID: id, Number: 0x123}, {BuildID: twice, Number: 0x124}, {Number: 0x125}}}
	for range 2 {
		s := f.stack(w)
		o := s.Attributions
		if len(o) != len(w.Stack) || o[0].File == nil || o[0].File.Path != "/bin/w" || o[0].Offset != 0x123 || o[0].Trust != filemap.Late ||
			o[1].Reason != filemap.NoPath || o[2].Reason != filemap.NoPath {
			t.Errorf("%+v", o)
		}
	}
	w.Memory = 2 // another program
	if o := f.stack(w).Attributions; o[0].Reason != filemap.NoPath {
		t.Errorf("after an exec: %+v", o[0])
	}
	f.know(noProcess)
	w.Memory, w.Born = 3, 3
	if o := f.stack(w).Attributions; o[0].Reason != filemap.NoPath {
		t.Errorf("of a process that was read before: %+v", o[0])
	}
}

// TestFilesHole: an offset that the kernel made of an address in no mapping names no file.
func TestFilesHole(t *testing.T) {
	f := emptyFiles(t)
	of := bpffutex.Futex{TGID: noProcess, Memory: 1, Born: 1}
	id, ok := elfid.New([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	if !ok {
		t.Fatal("no build ID")
	}
	key := filemap.BuildID(id.Padded())
	p := f.program(&of)
	p.paths[key] = "/bin/w"
	p.code = []procmap.Mapping{{Start: 0x10000, End: 0x13000, Offset: 0x5000, BuildID: id}}
	before := uint64(0x5000)
	before -= 0x10000 // of an address 0
	for _, test := range []struct {
		offset uint64
		reason filemap.Reason
	}{{0x5000, filemap.NoReason}, {0x7fff, filemap.NoReason}, {0x4fff, filemap.NotCode}, {0x8000, filemap.NotCode}, {before, filemap.NoVMA}} {
		o := f.stack(&bpffutex.Wait{Futex: of, Stack: []bpffutex.Frame{{BuildID: key, Number: test.offset}}}).Attributions[0]
		if o.Reason != test.reason || (o.File == nil) != (test.reason != filemap.NoReason) {
			t.Errorf("offset %#x: %+v, want reason %q", test.offset, o, test.reason)
		}
	}
}

// TestFilesBounded: what is kept of processes is bounded.
func TestFilesBounded(t *testing.T) {
	f := emptyFiles(t)
	for i := range 2 * maxProcesses {
		f.program(&bpffutex.Futex{TGID: noProcess + int32(i), Memory: 1, Born: 1})
		if len(f.processes) > maxProcesses {
			t.Fatalf("%d processes", len(f.processes))
		}
	}
}

// TestFilesForgotten: what is remembered of processes does not grow for ever, nor do the names and
// build IDs of files that the readers know.
func TestFilesForgotten(t *testing.T) {
	opened := 0
	f, err := newFiles(func() (readers, error) {
		opened++
		r, err := procmap.NewReader(procmap.Options{Proc: "/proc", IDs: procmap.NewIDs(nil)})
		return readers{r, r}, err
	}, byid.Options{})
	if err != nil {
		t.Skip(err)
	}
	defer f.close()
	stat, err := f.reader.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const tick = 1e9 / 100
	own := bpffutex.Futex{TGID: int32(os.Getpid()), Born: stat.StartTime*tick - suspended()}
	f.program(&own).code = make([]procmap.Mapping, 1)
	first, most := f.reader, 0
	for memory := range uint64(20) { // so many programs that it executes
		own.Memory = memory + 1
		p := f.program(&own)
		if len(p.code) == 0 {
			t.Fatal("its mappings were not read")
		}
		f.kept += maxKept / 8 // as if a program had so many more
		most = max(most, f.kept)
	}
	if opened < 3 || f.reader == first || f.files.Bytes() > 1<<16 || most > maxKept+maxKept/4 {
		t.Errorf("opened %d times, %d mappings at most", opened, most)
	}
	for pid := range int32(2*maxProcesses + 1) { // which are not there
		f.program(&bpffutex.Futex{TGID: 1<<30 + pid, Memory: 1})
	}
	if len(f.processes) > maxProcesses || opened < 5 {
		t.Errorf("%d processes, opened %d times", len(f.processes), opened)
	}
}
