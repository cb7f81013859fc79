package sideband

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// recordedMap is the record of a mapping of code.
func recordedMap(pid int, addr, size uint64, name string, t tracefs.Time) *perf.Record {
	return &perf.Record{Type: unix.PERF_RECORD_MMAP2, PID: pid, TID: pid, Addr: addr, Len: size, Prot: unix.PROT_READ | unix.PROT_EXEC,
		Name: []byte(name), Time: t}
}

// TestRecorded: processes have what the records of a perf.data say, at each time; what
// perf has made of /proc holds from the beginning on, and is no copy of the parent's.
func TestRecorded(t *testing.T) {
	r := NewRecorded(space.New(), "perf")
	id := make([]byte, 20)
	id[0] = 7
	r.FileID("/bin/a", id)
	const made = miscForkExec
	for _, rec := range []*perf.Record{
		{Type: unix.PERF_RECORD_COMM, PID: 10, TID: 10, Name: []byte("a")},
		recordedMap(10, 0x1000, 0x1000, "/bin/a", 0),
		{Type: unix.PERF_RECORD_FORK, Misc: made, PID: 11, TID: 11, ParentPID: 10, ParentTID: 10},
		recordedMap(11, 0x8000, 0x1000, "/bin/b", 0),
		{Type: unix.PERF_RECORD_FORK, PID: 10, TID: 12, ParentPID: 10, ParentTID: 10, Time: 100},
		{Type: unix.PERF_RECORD_FORK, PID: 20, TID: 20, ParentPID: 10, ParentTID: 10, Time: 200},
		{Type: unix.PERF_RECORD_COMM, Misc: unix.PERF_RECORD_MISC_COMM_EXEC, PID: 20, TID: 20, Name: []byte("c"), Time: 300},
		recordedMap(20, 0x1000, 0x1000, "/bin/c", 310),
		recordedMap(20, 0x5000, 0x1000, "[vdso]", 320),
		recordedMap(20, 0x1000, 0x1000, "/bin/d", 400),
		{Type: unix.PERF_RECORD_LOST, Lost: 3, LostFrom: 430, Time: 450},
		recordedMap(20, 0x6000, 0x1000, "[vdso]", 500), // an exec, which was lost
		{Type: unix.PERF_RECORD_EXIT, PID: 20, TID: 20, Time: 600},
		recordedMap(-1, 0xffff0000, 0x1000, "[kernel.kallsyms]_text", 0),
	} {
		r.Add(rec)
	}
	for _, c := range []struct {
		tid  int
		addr uint64
		at   tracefs.Time
		want string // "" for nothing
	}{
		{10, 0x1000, 1, "/bin/a"}, {11, 0x8000, 1, "/bin/b"}, {11, 0x1000, 1, ""}, {12, 0x1fff, 100, "/bin/a"},
		{12, 0x1000, 99, ""}, {20, 0x1000, 200, "/bin/a"}, {20, 0x1000, 300, ""}, {20, 0x1000, 310, "/bin/c"},
		{20, 0x1000, 399, "/bin/c"}, {20, 0x1000, 400, "/bin/d"}, {20, 0x1000, 499, "/bin/d"}, {20, 0x1000, 500, ""},
		{20, 0x1000, 600, ""},
	} {
		p, ok := r.History.Lookup(c.tid, c.addr, c.at)
		got := ""
		if ok {
			got = p.Mapping.File.Name
		}
		if got != c.want || ok && !p.Late {
			t.Errorf("thread %d, %#x at %d: %q instead of %q, late %v", c.tid, c.addr, c.at, got, c.want, p.Late)
		}
		if c.want == "/bin/a" && r.BuildID(p.Mapping.File).IsZero() {
			t.Errorf("%s has no build ID", c.want)
		}
	}
	if p, ok := r.History.Lookup(20, 0x6000, 510); !ok || p.Mapping.File.Kind != procmap.Special {
		t.Errorf("what may be the vDSO of 32-bit programs is %+v, %v", p, ok)
	}
	if r.LostSince != 430 || r.FileIDs() != 1 {
		t.Errorf("lost since %d, %d build IDs", r.LostSince, r.FileIDs())
	}
}

// TestRecordedIDs: of files with one name and several build IDs, none is known to be the one
// that was mapped; but a mapping that has an ID of its own keeps it.
func TestRecordedIDs(t *testing.T) {
	for _, c := range []struct {
		ids  []byte // their first bytes
		own  byte
		want byte
	}{
		{[]byte{7}, 0, 7}, {[]byte{7, 7}, 0, 7}, {[]byte{7, 8}, 0, 0}, {[]byte{7, 8, 7}, 0, 0}, {[]byte{7, 8}, 9, 9}, {nil, 0, 0},
	} {
		r := NewRecorded(space.New(), "perf")
		id := make([]byte, 20)
		for _, first := range c.ids {
			id[0] = first
			r.FileID("/bin/a", id)
		}
		rec := recordedMap(10, 0x1000, 0x1000, "/bin/a", 10)
		if id[0] = c.own; c.own != 0 {
			rec.BuildID = id
		}
		r.Add(&perf.Record{Type: unix.PERF_RECORD_COMM, PID: 10, TID: 10, Name: []byte("a")})
		r.Add(rec)
		p, ok := r.History.Lookup(10, 0x1000, 20)
		if !ok {
			t.Fatal("no mapping")
		}
		got := r.BuildID(p.Mapping.File)
		if got.IsZero() != (c.want == 0) || c.want != 0 && got.Padded()[0] != c.want {
			t.Errorf("%+v: %s", c, got.Hex())
		}
	}
}

// TestRecordedReplaced: the list has the ID of the file that had the name at the end. Where
// several files were mapped by the name, it is unknown which of them that is.
func TestRecordedReplaced(t *testing.T) {
	id := make([]byte, 20)
	id[0] = 7
	for _, c := range []struct {
		name  string
		files [2]fileKey
		ids   [2]byte // of the mappings
		want  [2]byte
	}{
		{"one", [2]fileKey{{procmap.Dev{Major: 8}, 33, 5}, {procmap.Dev{Major: 8}, 33, 5}}, [2]byte{}, [2]byte{7, 7}},
		{"one, in /proc before", [2]fileKey{{procmap.Dev{Major: 8}, 33, 0}, {procmap.Dev{Major: 8}, 33, 5}}, [2]byte{}, [2]byte{7, 7}},
		{"no inodes", [2]fileKey{}, [2]byte{}, [2]byte{7, 7}},
		{"replaced", [2]fileKey{{procmap.Dev{Major: 8}, 33, 5}, {procmap.Dev{Major: 8}, 34, 5}}, [2]byte{}, [2]byte{}},
		{"number used again", [2]fileKey{{procmap.Dev{Major: 8}, 33, 5}, {procmap.Dev{Major: 8}, 33, 6}}, [2]byte{}, [2]byte{}},
		{"another device", [2]fileKey{{procmap.Dev{Major: 8}, 33, 5}, {procmap.Dev{Major: 9}, 33, 5}}, [2]byte{}, [2]byte{}},
		{"the kernel reports another one", [2]fileKey{{procmap.Dev{Major: 8}, 33, 5}, {}}, [2]byte{0, 9}, [2]byte{0, 9}},
		{"the kernel reports the same", [2]fileKey{{procmap.Dev{Major: 8}, 33, 5}, {}}, [2]byte{0, 7}, [2]byte{7, 7}},
	} {
		r := NewRecorded(space.New(), "perf")
		r.FileID("/bin/a", id)
		r.Add(&perf.Record{Type: unix.PERF_RECORD_COMM, PID: 10, TID: 10, Name: []byte("a")})
		for i, f := range c.files {
			rec := recordedMap(10, uint64(i+1)<<16, 0x1000, "/bin/a", 10)
			rec.Major, rec.Minor, rec.Inode, rec.InodeGeneration = f.dev.Major, f.dev.Minor, f.inode, f.generation
			if c.ids[i] > 0 {
				rec.BuildID = append([]byte{c.ids[i]}, id[1:]...)
			}
			r.Add(rec)
		}
		for i, want := range c.want {
			p, ok := r.History.Lookup(10, uint64(i+1)<<16, 20)
			if !ok {
				t.Fatal("no mapping")
			}
			if got := r.BuildID(p.Mapping.File); got.IsZero() != (want == 0) || want != 0 && got.Padded()[0] != want {
				t.Errorf("%s, mapping %d: %s, want %d", c.name, i, got.Hex(), want)
			}
		}
	}
}

// TestMissed: a program that began before the end of a loss may have been replaced, for a
// stack after the beginning of that loss.
func TestMissed(t *testing.T) {
	r := NewRecorded(space.New(), "perf")
	for _, l := range []loss{{100, 150}, {100, 180}, {300, 310}, {300, 320}} {
		r.Add(&perf.Record{Type: unix.PERF_RECORD_LOST, Lost: 1, LostFrom: l.from, Time: l.to})
	}
	r.Add(&perf.Record{Type: unix.PERF_RECORD_LOST_SAMPLES, Lost: 1, Time: 500})
	for at, want := range map[tracefs.Time]tracefs.Time{0: 0, 99: 0, 100: 180, 299: 180, 300: 320, 1000: 320} {
		if until, ok := r.Missed(at); until != want || ok != (want > 0) {
			t.Errorf("at %d: %d, %v, want %d", at, until, ok, want)
		}
	}
}

// TestFixedPlace: where Linux puts programs and libraries without randomisation, and where with
// it.
func TestFixedPlace(t *testing.T) {
	for addr, want := range map[uint64]bool{
		0x401000: true, 0x7ffff7dd5000: true, 0x7ffff7fc1000: true, 0x555555555000: true, 0x2aaaaaaab000: true,
		0xaaaaaaaab000: true, 0xfffff7e00000: true, 0x5555556000: true, 0x7ff7e00000: true,
		0x7f3578507000: false, 0x562771758000: false, 0xfffd8a000000: false, 0xaaade5f70000: false,
	} {
		if FixedPlace(addr) != want {
			t.Errorf("%#x: %v", addr, !want)
		}
	}
}
