package sideband

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// A record of a mapping has either the build ID of the file or its inode. A file at a path
// with a build ID need not be the mapped one: a user can have another one there, in a mount
// namespace or a chroot. So the kernel reports each mapping to a second event as well, which
// does not ask for build IDs (see openData), right before: an event that is opened later has
// its records first (attach_sb_event in kernel/events/core.c), and the kernel does not
// leave the CPU in between (perf_iterate_sb).

// inodes are the inodes of mappings whose other record is to come.
type inodes struct {
	by map[int]inodeRecord // by thread
	// lossy: of the records at hand some are missing, of those that do not have the inode. One
	// of the others could be taken for the partner of a later one.
	lossy bool
}

// inodeRecord shows to which record an inode belongs.
type inodeRecord struct {
	cpu               uint32
	pid               int
	addr, len, offset uint64
	time              tracefs.Time
	file              procmap.FileID
}

const (
	maxInodes = 1 << 12
	// pairWithin is more than the kernel needs from one record to the other, even if a
	// hypervisor has other plans.
	pairWithin = tracefs.Time(1e7)
)

// saw notes the inode of a mapping.
func (s *inodes) saw(r *perf.Record) {
	if s.lossy || r.Inode == 0 {
		return
	}
	if s.by == nil || len(s.by) >= maxInodes {
		s.by = make(map[int]inodeRecord)
	}
	s.by[r.TID] = inodeRecordOf(r)
}

func inodeRecordOf(r *perf.Record) inodeRecord {
	return inodeRecord{r.CPU, r.PID, r.Addr, r.Len, r.Offset, r.Time,
		procmap.FileID{Dev: procmap.Dev{Major: r.Major, Minor: r.Minor}, Inode: r.Inode}}
}

// of returns the inode of a mapping, zero if it is not known.
func (s *inodes) of(r *perf.Record) procmap.FileID {
	now, before := inodeRecordOf(r), s.by[r.TID]
	delete(s.by, r.TID)
	if r.Inode != 0 {
		return now.file
	}
	if s.lossy || now.time < before.time || now.time-before.time > pairWithin {
		return procmap.FileID{}
	}
	now.time, now.file = before.time, before.file
	if now != before {
		return procmap.FileID{}
	}
	return before.file
}

// recordedFile is what is known of the file of a mapping by its record.
type recordedFile struct {
	inode procmap.FileID // zero if it is not known
	// missing: a record would have it, and was lost.
	missing bool
	// read: the kernel did not report the build ID. It was read later.
	read bool
}

func recordedFileOf(b *Band, r *perf.Record) recordedFile {
	inode := b.files.inodes.of(r)
	return recordedFile{inode, inode == (procmap.FileID{}) && b.rings.reportsInodes(), len(r.BuildID) == 0}
}

// reportsInodes reports whether records have the inodes of mappings.
func (rs *rings) reportsInodes() bool {
	return !rs.noData && slices.ContainsFunc(rs.list, func(r *ring) bool { return r.soft })
}

// begin notes that records are read.
func (s *inodes) begin() { s.lossy = false }

// lost notes that some of them are missing, of those that do not have the inode.
func (s *inodes) lost() { s.by, s.lossy = nil, true }
