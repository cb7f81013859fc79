package sideband

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/compat"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/perf"
)

// TestRawCompat: of the calls that have the number of a 32-bit one, those with its arguments
// are taken for it.
func TestRawCompat(t *testing.T) {
	tp := &Tracepoint{fields: []format.Field{{Name: "id", Offset: 8, Size: 8}}}
	record := func(words ...uint64) []byte {
		raw := make([]byte, 8)
		for _, w := range words {
			raw = binary.NativeEndian.AppendUint64(raw, w)
		}
		return raw
	}
	for _, c := range []struct {
		name  string
		words []uint64
		want  bool
	}{
		{"munmap", []uint64{91, 0x400000, 0x1000, 0, 0, 0, 0}, true},
		{"munmap from the lowest address on", []uint64{91, 0, 0x500000, 0, 0, 0, 0}, true},
		{"munmap with other upper halves", []uint64{91, 0x7f0000400000, 0x1000, 0, 0, 0, 0}, true},
		{"munmap, refused", []uint64{91, 0x400001, 0x1000, 0, 0, 0, 0}, false},
		{"fchmod", []uint64{91, 7, 0o644, 0, 0, 0, 0}, false},
		{"fchmod of the first descriptor", []uint64{91, 0, 0o100755, 0, 0, 0, 0}, false},
		{"fchmod of -1", []uint64{91, 1<<64 - 1, 0o644, 0, 0, 0, 0}, false},
		{"mremap", []uint64{163, 0x400000, 0x1000, 0x1000, 3, 0x500000, 0}, true},
		{"mremap with other upper halves", []uint64{163, 0x7ffc00400000, 0x1000, 0x1000, 3, 0x500000, 0}, true},
		{"acct", []uint64{163, 0x7ffc00001080, 0, 0, 0, 0, 0}, false},
		{"madvise", []uint64{219, 0xfffff000, 0x6000, unix.MADV_DONTFORK, 0, 0, 0}, true},
		{"madvise with other upper halves", []uint64{219, 0x7ffcfffff000, 0x6000, 1<<32 | unix.MADV_DONTFORK, 0, 0, 0}, true},
		{"madvise that marks nothing", []uint64{219, 0xfffff000, 0x6000, unix.MADV_DONTNEED, 0, 0, 0}, false},
		{"restart_syscall", []uint64{219, 0x7ffc00000140, 0, unix.MADV_DONTFORK, 0, 0, 0}, false},
		{"io_setup", []uint64{245, 1, 0x20000000, 0, 0, 0, 0}, true},
		{"mq_getattr", []uint64{245, 3, 0, 0x7ffc00000140, 0, 0, 0}, false},
		{"io_destroy", []uint64{246, 0xfffff000, 0, 0, 0, 0, 0}, true},
		{"process_madvise", []uint64{440, 3, 0x20000000, 1, unix.MADV_DONTFORK, 0, 0}, true},
		{"process_madvise that marks nothing", []uint64{440, 3, 0x20000000, 1, unix.MADV_COLD, 0, 0}, false},
		{"prctl", []uint64{172, unix.PR_SET_MM, 14, 0x20000000, 104, 0, 0}, true},
		{"prctl of a name", []uint64{172, 15, 0x20000000, 0, 0, 0, 0}, false},
		{"iopl", []uint64{172, 3, 0, 0, 0, 0, 0}, false},
		{"munmap of the x32 ABI", []uint64{11 | compat.X32Bit, 0x7f0000000000, 0x1000, 0, 0, 0, 0}, true},
		{"a record that is cut", []uint64{91, 0x7ffc00001000}, true},
	} {
		if got := isRawCompat(record(c.words...), tp); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestInHeap: a file of which there is code below 4 GiB is the program's own, or may be in
// its heap.
func TestInHeap(t *testing.T) {
	at := func(start, inode, offset uint64) procmap.Mapping {
		return procmap.Mapping{Start: start, End: start + 0x1000, Inode: inode, Offset: offset, Kind: procmap.File}
	}
	for _, c := range []struct {
		name string
		maps []procmap.Mapping
		want bool
	}{
		{"nothing", nil, false},
		{"a fixed program", []procmap.Mapping{at(0x400000, 1, 0), at(0x500000, 1, 0x100000), at(0x7f0000000000, 2, 0)}, false},
		{"another file", []procmap.Mapping{at(0x400000, 1, 0), at(0x20000000, 2, 0)}, true},
		{"another file, above 4 GiB", []procmap.Mapping{at(0x400000, 1, 0), at(0x120000000, 2, 0)}, true},
		{"its own file once more", []procmap.Mapping{at(0x400000, 1, 0), at(0x20000000, 1, 0)}, true},
		{"no fixed program", []procmap.Mapping{at(0x550000000000, 1, 0), at(0x7f0000000000, 2, 0)}, false},
	} {
		if got := inHeap(c.maps); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestHeaped: without kprobes, a file that a process maps below 4 GiB once its program has
// begun is not sure to stay: a 32-bit brk can unmap it unseen.
func TestHeaped(t *testing.T) {
	for _, raw := range []bool{false, true} {
		b := newBand(space.New(), Options{}, unix.CLOCK_MONOTONIC)
		b.rings.raw = raw
		at := tracefs.Time(100)
		code := func(inode, start uint64) {
			at += 10
			m := &procmap.Mapping{Start: start, End: start + 0x1000, Inode: inode, Kind: procmap.File, Perms: procmap.Read | procmap.Exec}
			heaped(b, &perf.Record{PID: 7, TID: 7, Time: at}, m)
			_ = b.History.mapped(7, m, at)
		}
		late := func(what string, addr uint64, want bool) {
			t.Helper()
			if p, ok := b.History.Spaces.Lookup(7, addr, at); !ok || p.Late != want {
				t.Errorf("raw %t, %s: %t, %t", raw, what, ok, p.Late)
			}
		}
		b.History.fork(1, 7, 50)
		b.History.exec(7, "prog", 60)
		code(1, 0x400000)
		code(1, 0x500000)
		code(2, 0x7f0000000000)
		late("the program", 0x400010, false)
		late("a library", 0x7f0000000010, false)
		code(3, 0x20000000)
		late("low", 0x20000010, raw)
	}
}

// TestHeapedBefore: so it is with one that a process from before the trace maps above 4 GiB,
// where its heap can reach.
func TestHeapedBefore(t *testing.T) {
	b := newBand(space.New(), Options{}, unix.CLOCK_MONOTONIC)
	b.rings.raw = true
	for i, start := range []uint64{0x7f0000000000, 0x120000000} {
		at := tracefs.Time(100 + 10*i)
		m := &procmap.Mapping{Start: start, End: start + 0x1000, Inode: uint64(i), Kind: procmap.File, Perms: procmap.Read | procmap.Exec}
		heaped(b, &perf.Record{PID: 7, TID: 7, Time: at}, m)
		_ = b.History.mapped(7, m, at)
		if p, ok := b.History.Spaces.Lookup(7, start, at); !ok || p.Late != (start < low+heapReach) {
			t.Errorf("%#x: %t, late %t", start, ok, p.Late)
		}
	}
}
