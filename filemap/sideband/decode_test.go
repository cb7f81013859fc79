package sideband

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
)

// raw makes a record as the kernel does: header, body, trailer.
func raw(kind uint32, misc uint16, t uint64, cpu uint32, body ...any) []byte {
	var b bytes.Buffer
	put := func(vs ...any) {
		for _, v := range vs {
			if err := binary.Write(&b, binary.NativeEndian, v); err != nil {
				panic(err)
			}
		}
	}
	put(kind, misc, uint16(0))
	for _, v := range body {
		if s, ok := v.(string); ok {
			b.WriteString(s)
			b.Write(make([]byte, 8-len(s)%8)) // at least one NUL
			continue
		}
		put(v)
	}
	put(uint32(1), uint32(2), t, cpu, uint32(0))
	out := b.Bytes()
	binary.NativeEndian.PutUint16(out[6:], uint16(len(out)))
	return out
}

// rawMap is a mapping without build ID.
func rawMap(pid, tid int, addr, length, pgoff uint64, prot, flags uint32, name string, t uint64) []byte {
	return raw(unix.PERF_RECORD_MMAP2, unix.PERF_RECORD_MISC_USER, t, 1, int32(pid), int32(tid), addr, length, pgoff,
		uint32(8), uint32(1), uint64(77), uint64(3), prot, flags, name)
}

func rawTask(kind uint32, pid, ppid, tid, ptid int, t uint64, cpu uint32) []byte {
	return raw(kind, 0, t, cpu, int32(pid), int32(ppid), int32(tid), int32(ptid), t)
}

func rawComm(pid, tid int, misc uint16, name string, t uint64, cpu uint32) []byte {
	return raw(unix.PERF_RECORD_COMM, misc, t, cpu, int32(pid), int32(tid), name)
}

const rx = unix.PROT_READ | unix.PROT_EXEC

func TestDecode(t *testing.T) {
	var r Record
	b := rawMap(10, 11, 0x400000, 0x2000, 0x1000, rx, unix.MAP_PRIVATE, "/usr/bin/with blank", 1234)
	if n, err := Decode(append(b, 1, 2, 3), &r); err != nil || n != len(b) {
		t.Fatal(n, err)
	}
	if r.PID != 10 || r.TID != 11 || r.Addr != 0x400000 || r.Len != 0x2000 || r.Offset != 0x1000 || r.Time != 1234 || r.CPU != 1 ||
		string(r.Name) != "/usr/bin/with blank" || r.Dev != (procmap.Dev{Major: 8, Minor: 1}) || r.Inode != 77 || r.InodeGeneration != 3 || !r.BuildID.IsZero() {
		t.Errorf("a mapping is %+v", r)
	}

	id := [20]byte{1, 2, 3, 19: 20}
	b = raw(unix.PERF_RECORD_MMAP2, unix.PERF_RECORD_MISC_MMAP_BUILD_ID, 5, 0, int32(1), int32(2), uint64(0x1000), uint64(0x1000), uint64(0),
		[4]byte{16}, id, uint32(rx), uint32(unix.MAP_SHARED), "/a")
	if _, err := Decode(b, &r); err != nil {
		t.Fatal(err)
	}
	if want, _ := elfid.New(id[:16]); r.BuildID != want || r.Inode != 0 || r.Dev != (procmap.Dev{}) || r.Flags != unix.MAP_SHARED || string(r.Name) != "/a" {
		t.Errorf("a mapping with a build ID is %+v", r)
	}

	b = rawComm(5, 6, unix.PERF_RECORD_MISC_COMM_EXEC, "name", 9, 3)
	if _, err := Decode(b, &r); err != nil || r.PID != 5 || r.TID != 6 || string(r.Name) != "name" || !r.Exec() || r.Time != 9 || r.CPU != 3 {
		t.Errorf("an exec is %+v, %v", r, err)
	}
	b = rawTask(unix.PERF_RECORD_FORK, 5, 5, 7, 5, 10, 0)
	if _, err := Decode(b, &r); err != nil || r.PID != 5 || r.TID != 7 || r.ParentPID != 5 || r.ParentTID != 5 || !r.Thread() || r.Exec() {
		t.Errorf("a thread is %+v, %v", r, err)
	}
	b = rawTask(unix.PERF_RECORD_FORK, 8, 5, 8, 5, 10, 0)
	if _, err := Decode(b, &r); err != nil || r.PID != 8 || r.TID != 8 || r.ParentPID != 5 || r.Thread() {
		t.Errorf("a fork is %+v, %v", r, err)
	}
	b = raw(unix.PERF_RECORD_SAMPLE, 0, 12, 1)
	binary.NativeEndian.PutUint32(b[headerSize:], 5)
	binary.NativeEndian.PutUint32(b[headerSize+4:], 6)
	if _, err := Decode(b, &r); err != nil || r.PID != 5 || r.TID != 6 || r.Time != 12 || r.CPU != 1 {
		t.Errorf("a sample is %+v, %v", r, err)
	}
	b = raw(unix.PERF_RECORD_LOST, 0, 11, 0, uint64(99), uint64(42))
	if _, err := Decode(b, &r); err != nil || r.Lost != 42 {
		t.Errorf("a loss is %+v, %v", r, err)
	}
	b = raw(unix.PERF_RECORD_LOST_SAMPLES, 0, 11, 0, uint64(43))
	if _, err := Decode(b, &r); err != nil || r.Lost != 43 {
		t.Errorf("a loss is %+v, %v", r, err)
	}
	b = rawTask(unix.PERF_RECORD_EXIT, -1, 0, -1, 0, 10, 0)
	if _, err := Decode(b, &r); err != nil || r.PID != -1 {
		t.Errorf("an exit elsewhere is %+v, %v", r, err)
	}
}

// TestDecodeBad: what is no record is an error that says why.
func TestDecodeBad(t *testing.T) {
	good := rawMap(10, 11, 0x400000, 0x2000, 0x1000, rx, 2, "/a", 1234)
	edit := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	short := func(kind uint32, body ...any) []byte { return raw(kind, 0, 1, 0, body...) }
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":           {nil, "header is cut off"},
		"half a header":   {good[:7], "header is cut off"},
		"cut off":         {good[:len(good)-8], "it is cut off"},
		"size 0":          {edit(6, 0, 0), "impossible size"},
		"size 9":          {edit(6, 9, 0), "impossible size"},
		"header only":     {edit(6, 8, 0), "no time"},
		"negative time":   {edit(len(good)-9, 0xff), "time is impossible"},
		"addresses wrap":  {edit(16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "impossible addresses"},
		"no length":       {edit(24, 0, 0, 0), "impossible addresses"},
		"long build ID":   {append(edit(4, 0, 0x40)[:40], append([]byte{21}, good[41:]...)...), "build ID is too long"},
		"short mapping":   {short(unix.PERF_RECORD_MMAP2, uint64(1)), "mapping is too short"},
		"short name":      {short(unix.PERF_RECORD_COMM), "name is too short"},
		"long sample":     {append([]byte{9, 0, 0, 0, 0, 0, 40, 0}, append(make([]byte, trailerSize), 5, 0, 0, 0, 0, 0, 0, 0)...), "sample is cut off"},
		"short fork":      {short(unix.PERF_RECORD_FORK, uint64(1)), "fork or exit is too short"},
		"loss of nothing": {short(unix.PERF_RECORD_LOST, uint64(1)), "loss without a number"},
		"no samples lost": {short(unix.PERF_RECORD_LOST_SAMPLES), "loss without a number"},
	} {
		var r Record
		if _, err := Decode(c.b, &r); !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestMapping: what the kernel tells of mappings is what procmap reads of them.
func TestMapping(t *testing.T) {
	var ns filemap.Names
	for _, c := range []struct {
		name         string
		dev, inode   uint64
		want         string
		kind         procmap.Kind
		offset       uint64
		withoutInode bool
	}{
		{name: "/usr/lib/x", want: "/usr/lib/x", kind: procmap.File, offset: 0x1000},
		{name: "/usr/lib/x (deleted)", want: "/usr/lib/x (deleted)", kind: procmap.Deleted, offset: 0x1000},
		{name: "//anon", kind: procmap.Anonymous},
		{name: "//toolong", kind: procmap.File, offset: 0x1000},
		{name: "//enomem", kind: procmap.File, offset: 0x1000},
		{name: "[vdso]", want: "[vdso]", kind: procmap.VDSO},
		{name: "[heap]", want: "[heap]", kind: procmap.Heap},
		{name: "[stack]", want: "[stack]", kind: procmap.Stack},
		{name: "[uprobes]", want: "[uprobes]", kind: procmap.Special},
		{name: "/memfd:jit (deleted)", want: "/memfd:jit (deleted)", kind: procmap.Memfd, offset: 0x1000, withoutInode: true},
		{name: "/dev/zero (deleted)", want: "/dev/zero (deleted)", kind: procmap.SharedAnon, offset: 0x1000, withoutInode: true},
		{name: "/SYSV00000001 (deleted)", want: "/SYSV00000001 (deleted)", kind: procmap.SysV, offset: 0x1000, withoutInode: true},
		{name: "anon_inode:[perf_event]", want: "anon_inode:[perf_event]", kind: procmap.File, offset: 0x1000},
	} {
		r := Record{Addr: 0x7000, Len: 0x2000, Offset: 0x1000, Prot: rx, Flags: unix.MAP_PRIVATE, Name: []byte(c.name),
			Dev: procmap.Dev{Major: 8}, Inode: 5}
		if c.withoutInode {
			r.Dev = procmap.Dev{Minor: 1}
		}
		m := r.mapping(&ns)
		if m.Name != c.want || m.Kind != c.kind || m.Offset != c.offset || m.Start != 0x7000 || m.End != 0x9000 || m.Perms != procmap.Read|procmap.Exec {
			t.Errorf("%s: %+v (%v)", c.name, m, m.Kind)
		}
	}
	if p := perms(unix.PROT_WRITE, unix.MAP_SHARED); p != procmap.Write|procmap.Shared {
		t.Errorf("permissions %v", p)
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]string{"0": "[0]", "0-1": "[0 1]", "0-2,5,7-8": "[0 1 2 5 7 8]"} {
		if got, err := parseCPUs(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "1-", "-1", "3-1", "0-99999999999", "0,,1", "0-16384"} {
		if got, err := parseCPUs(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// FuzzDecode: no bytes do harm, and a record stays within its bytes.
func FuzzDecode(f *testing.F) {
	f.Add(rawMap(10, 11, 0x400000, 0x2000, 0x1000, rx, 2, "/a", 1234))
	f.Add(rawComm(5, 6, unix.PERF_RECORD_MISC_COMM_EXEC, "name", 9, 3))
	f.Add(rawTask(unix.PERF_RECORD_FORK, 5, 5, 7, 5, 10, 0))
	f.Add(raw(unix.PERF_RECORD_LOST, 0, 11, 0, uint64(99), uint64(42)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			var r Record
			n, err := Decode(b, &r)
			if err != nil {
				if !errors.Is(err, ErrRecord) {
					t.Errorf("error %v", err)
				}
				return
			}
			if n < headerSize+trailerSize || n > len(b) || len(r.Name) > n || r.Time < 0 || r.Addr+r.Len < r.Addr {
				t.Errorf("%d of %d bytes: %+v", n, len(b), r)
			}
			b = b[n:]
		}
	})
}
