package sideband

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/tracefs/perf"
	"ustack/tracefs/perf/perftest"
)

// raw makes a record as the kernel does.
func raw(kind uint32, misc uint16, t uint64, cpu uint32, body ...[]byte) []byte {
	return perftest.Record(kind, misc, t, cpu, body...)
}

// rawMap is a mapping without build ID.
func rawMap(pid, tid int, addr, length, pgoff uint64, prot, flags uint32, name string, t uint64) []byte {
	return raw(unix.PERF_RECORD_MMAP2, unix.PERF_RECORD_MISC_USER, t, 1, perftest.IDs(pid, tid), perftest.U64(addr, length, pgoff),
		perftest.U32(8, 1), perftest.U64(77, 3), perftest.U32(prot, flags), perftest.Name(name))
}

func rawTask(kind uint32, pid, ppid, tid, ptid int, t uint64, cpu uint32) []byte {
	return raw(kind, 0, t, cpu, perftest.IDs(pid, ppid, tid, ptid), perftest.U64(t))
}

func rawComm(pid, tid int, misc uint16, name string, t uint64, cpu uint32) []byte {
	return raw(unix.PERF_RECORD_COMM, misc, t, cpu, perftest.IDs(pid, tid), perftest.Name(name))
}

const rx = unix.PROT_READ | unix.PROT_EXEC

// TestMapping: the kernel's records of mappings are equal to what procmap reads.
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
		r := perf.Record{Addr: 0x7000, Len: 0x2000, Offset: 0x1000, Prot: rx, Flags: unix.MAP_PRIVATE, Name: []byte(c.name),
			Major: 8, Inode: 5}
		if c.withoutInode {
			r.Major, r.Minor = 0, 1
		}
		m := mapping(&r, &ns)
		if m.Name != c.want || m.Kind != c.kind || m.Offset != c.offset || m.Start != 0x7000 || m.End != 0x9000 || m.Perms != procmap.Read|procmap.Exec {
			t.Errorf("%s: %+v (%v)", c.name, m, m.Kind)
		}
	}
	if p := perms(unix.PROT_WRITE, unix.MAP_SHARED); p != procmap.Write|procmap.Shared {
		t.Errorf("permissions %v", p)
	}
}
