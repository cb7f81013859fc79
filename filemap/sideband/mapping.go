package sideband

import (
	"bytes"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs/perf"
)

// layout is what all our records have.
var layout perf.Layout

// Names that the kernel writes in place of a path (perf_event_mmap_event in
// kernel/events/core.c). No path begins so.
var (
	nameNone    = []byte("//anon")    // memory without file and name
	nameTooLong = []byte("//toolong") // a path longer than PATH_MAX
	nameNoMem   = []byte("//enomem")
)

// mapping returns what procmap would read of the mapping. A file whose name the
// kernel could not report has none.
func mapping(r *perf.Record, names *filemap.Names) procmap.Mapping {
	m := procmap.Mapping{Start: r.Addr, End: r.Addr + r.Len, Offset: r.Offset, Perms: perms(r.Prot, r.Flags),
		Dev: procmap.Dev{Major: r.Major, Minor: r.Minor}, Inode: r.Inode}
	m.BuildID, _ = elfid.New(r.BuildID)
	switch {
	case bytes.Equal(r.Name, nameNone):
		m.Kind, m.Offset = procmap.Anonymous, 0
	case bytes.Equal(r.Name, nameTooLong), bytes.Equal(r.Name, nameNoMem):
		m.Kind = procmap.File
	default:
		m.Name = names.Intern(r.Name)
		m.Kind = procmap.Classify(m.Name, m.Dev, m.Inode)
		if len(r.Name) == 0 || r.Name[0] == '[' {
			m.Offset = 0 // of memory: the address as a page, no place in a file
		}
	}
	return m
}

// perms returns the permissions that PROT_ and MAP_ bits mean.
func perms(prot, flags uint32) procmap.Perms {
	var p procmap.Perms
	for _, bit := range [...]struct {
		set  bool
		perm procmap.Perms
	}{
		{prot&unix.PROT_READ != 0, procmap.Read}, {prot&unix.PROT_WRITE != 0, procmap.Write},
		{prot&unix.PROT_EXEC != 0, procmap.Exec}, {flags&unix.MAP_SHARED != 0, procmap.Shared},
	} {
		if bit.set {
			p |= bit.perm
		}
	}
	return p
}
