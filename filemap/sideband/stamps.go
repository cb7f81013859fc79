package sideband

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// inotify(7) reports a write under the name by which the file was opened for it, and
// not at all one through AIO or a shared mapping. So the times of the files that are
// mapped are compared, too, on each Drain: the kernel sets them for a write of any
// kind before it changes the file (file_update_time in fs/inode.c).
//
// That is enough for a file on a disk to which only root can write. Of another one, its owner
// can set the times back after a write, and undo that, and can write long after the kernel has
// set the times: to a page of a shared mapping that was dirty before, or by a write of data
// that is late. So its build ID is read on each Drain, too, and a change of its status (ctime)
// counts for a write. The ID of a file in memory is read whoever owns it: its pages stay dirty
// for good (tmpfs, ramfs), or no write through a mapping sets a time (hugetlbfs).
//
// Two writes remain unseen: one of another build ID that is undone before the next Drain, if
// no time shows it, through such a page. And on kernels before 6.13, whose file times advance
// in ticks, a second write in the same tick, unless it changes the build ID.

// stamped is a file that is mapped, held by a descriptor of its path (O_PATH), so
// that it stays this file, whatever takes over its names.
type stamped struct {
	mappedFile
	fd int
	at pathFile
	// young: the file had just been changed when at was read, so that another
	// change may have the same time.
	young bool
	// layered: it is a file of an overlay. Once that has a copy of it, which anything can
	// bring about, even new permissions, what is mapped is another file.
	layered bool
	// inMemory: its times do not show all writes.
	inMemory bool
	// settled: another change has another time than that of at.
	settled bool
}

// stamps are the files whose times are compared.
type stamps struct {
	by map[watchedAs]*stamped
	// inodes has those of by by their inodes, of one with several names the last.
	inodes map[procmap.FileID]*stamped
	// names counts the files in by of each name and ID. full: there is no room for more.
	names map[mappedFile]int
	full  bool
	most  int // maxStamped, if 0
	// refused are files that cannot be held: they are on a server.
	refused map[watchedAs]bool
	// lost are files whose build IDs are no longer known to be right.
	lost []mappedFile
	// unheld are files whose mappings could not be looked at.
	unheld map[mappedFile]*unheld
	// suspects are files whose mappings, when they were looked at, were of other files.
	suspects []suspect
	// sweep is when to release the files that no process has mapped.
	sweep time.Time
}

const (
	// maxStamped bounds the files that are held, stampedShare is the part of all
	// descriptors that they may take.
	maxStamped, stampedShare = 1 << 12, 4
	// sweepEvery is how long a file system can be kept from being unmounted
	// after the last of its files was unmapped. sweepCost is the part of all
	// time that looking for such files takes at most.
	sweepEvery, sweepCost = time.Second, 1.0 / 200
)

// suspect is a file that may have been written: the process has another one at the mapping, as far
// as the build ID shows, and that may not be the one at the path.
type suspect struct {
	watchedFile
	in    int    // the process that has the mapping
	start uint64 // of the mapping
	at    tracefs.Time
	// looked is when it had been looked at.
	looked tracefs.Time
	// unheld: if the mapping has changed, it is to be looked for again.
	unheld bool
}

// settleSuspects takes the build IDs of suspects whose mappings, when they had been looked at,
// were still what they were: so what they map was not their file, and not unmapped either.
// All changes of mappings until a time are known: it reports whether that is enough for all
// suspects. The others are left.
func (w *watchedFiles) settleSuspects(known tracefs.Time) bool {
	w.stamps.suspects = slices.DeleteFunc(w.stamps.suspects, func(f suspect) bool {
		if f.looked > known {
			return false
		}
		switch {
		case w.had(&f):
			w.lose(&f.watchedFile)
		case f.unheld:
			w.notHeld(f.in, &f.watchedFile)
		}
		return true
	})
	return len(w.stamps.suspects) == 0
}

// had reports whether a process had the mapping when it was looked at.
func (w *watchedFiles) had(f *suspect) bool {
	v := w.history.Spaces.Space(f.in).At(f.looked)
	if v == nil {
		return false
	}
	m := v.Find(f.start)
	return m != nil && m.Since <= f.at && m.File.Name == f.name && m.File.BuildID == f.id
}

// room returns how many files may be held.
func (s *stamps) room() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur/stampedShare, uint64(cmp.Or(s.most, maxStamped))))
}

// holds reports whether the file with an inode is held, so that it is still this file, and only
// root can write to it. One that others can write has to be looked at for each mapping: it may
// have just been changed.
func (s *stamps) holds(inode procmap.FileID, file mappedFile) bool {
	f := s.inodes[inode]
	return f != nil && f.mappedFile == file && f.at.roots && !f.layered
}

// stamp begins to compare the times of the file of a mapping that was made at t. f is
// the file at its path; found is false if there is none, or another one. It reports whether the
// mapping is of the file that is held, if it was still there.
func (w *watchedFiles) stamp(pid int, f *watchedFile, m *procmap.Mapping, t tracefs.Time, found bool) (sure bool) {
	s := &w.stamps
	if found && w.isStamped(pid, f, m) {
		return openfile.KeepsMapped && s.by[f.as()] != nil && (f.proven || f.isMapped && f.link.same(f.at))
	}
	if s.full = len(s.by) >= s.room(); s.full {
		w.lose(f)
		return false
	}
	held := &heldFile{pid: pid, m: *m, made: w.completer.wall.at(t), read: f.read, fd: -1}
	if found {
		held.path, held.is, held.other = rootPath(f.pid, f.name), f.at, f.pid != pid
	}
	if err := w.completer.bounded().Do(held.open); err != nil {
		held.leave()
		w.lose(f)
		return false
	}
	if !held.direct && (f.other || f.missing || f.read && held.fd < 0 && !held.remote) {
		held.close()
		w.bare(pid, f, m)
		return false
	}
	if held.strange && len(s.suspects) < maxStamped {
		s.suspects = append(s.suspects, suspect{watchedFile: *f, in: pid, start: m.Start, at: t, looked: perf.Now(w.clock)})
	}
	if !held.direct && !f.proven && !held.changed && !held.remote {
		w.notHeld(pid, f)
	}
	if held.fresh {
		w.stampFresh(pid, f, m, t, held)
	}
	if held.fd < 0 && !held.changed {
		if found && held.remote {
			s.refuse(f)
		}
		return false
	}
	return w.keep(f, held) && (held.direct || f.proven)
}

// isStamped reports whether the file at the path of a mapping is held, or cannot be, and is the
// mapped one. So it counts as if the mapping cannot be looked at. Others than root can move their
// files.
func (w *watchedFiles) isStamped(pid int, f *watchedFile, m *procmap.Mapping) bool {
	switch {
	case !w.stamps.refused[f.as()] && (w.stamps.by[f.as()] == nil || !f.at.roots):
		return false
	case f.proven:
		return true
	case f.isMapped:
		return f.link.same(f.at)
	}
	w.notLookedAt(pid, f, m)
	return true
}

// notLookedAt notes that a mapping could not be looked at.
func (w *watchedFiles) notLookedAt(pid int, f *watchedFile, m *procmap.Mapping) {
	if f.missing {
		w.bare(pid, f, m)
		return
	}
	w.notHeld(pid, f)
}

// bare takes the build ID of a mapping that could not be looked at, and is not known to be of the
// file at its path: what is mapped may be written. Other processes have the file at the path, most
// likely, and keep theirs.
func (w *watchedFiles) bare(pid int, f *watchedFile, m *procmap.Mapping) {
	bare := *m
	bare.BuildID = elfid.ID{}
	w.history.mapped(pid, &bare, f.mapped)
}

// lose takes the build ID of a file from when it was mapped on.
func (w *watchedFiles) lose(f *watchedFile) {
	w.proof.unsure(f.name, f.id)
	w.stamps.lose(f)
	w.checked = min(w.checked, f.mapped)
}

// keep keeps a file that is held, unless it has changed since it was mapped.
func (w *watchedFiles) keep(f *watchedFile, held *heldFile) (kept bool) {
	s := &w.stamps
	as := watchedAs{f.mappedFile, held.at.id, held.at.born.UnixNano()}
	switch {
	case held.changed:
		held.close()
		w.lose(f)
		w.forgotten(held.at.id)
		return false
	case s.by[as] != nil:
		held.close()
	default:
		if s.by == nil {
			s.by, s.names, s.inodes = make(map[watchedAs]*stamped), make(map[mappedFile]int), make(map[procmap.FileID]*stamped)
		}
		s.names[f.mappedFile]++
		s.by[as] = &stamped{mappedFile: f.mappedFile, fd: held.fd, at: held.at, young: held.young, layered: layered(held.fd), inMemory: held.inMemory}
		s.inodes[as.inode] = s.by[as]
	}
	w.proof.holds(s.by[as], w.completer.mounts.stays(as.inode.Dev))
	return true
}

// rootPath returns a path as a process has it.
func rootPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/root" + name }

// hasID reports whether a file that is held has a build ID, and did not change while
// it was read.
func hasID(fd int, want elfid.ID) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	id, ok := readID(fd, versionOf(&st))
	return ok && id == want
}

// changedFiles returns the files that were changed since they were looked at
// last.
func (w *watchedFiles) changedFiles(drained tracefs.Time) []mappedFile {
	s := &w.stamps
	list := s.lost
	s.lost = nil
	for as, f := range s.by {
		if !f.check(w.completer.bounded()) {
			list = append(list, f.mappedFile)
			s.drop(as)
			w.forgotten(as.inode)
			w.proof.unsure(f.name, f.id)
		} else {
			w.proof.settle(f)
		}
	}
	w.sweepStamps(time.Now(), drained)
	return list
}

// forgotten has others forget the build ID of a file.
func (w *watchedFiles) forgotten(id procmap.FileID) {
	if w.forget != nil {
		w.forget(id)
	}
}

// check reports whether a file is what it was. New permissions or names set the
// ctime of a file, but not its mtime; a program can set the mtime back.
func (f *stamped) check(calls *bounded.Calls) bool {
	now, ok := statFD(f.fd) // asks no server
	switch {
	case !ok || !now.written.Equal(f.at.written), (f.layered || !f.at.roots) && !now.changed.Equal(f.at.changed):
		return false
	case !f.at.roots && !f.layered:
		return reads(f.fd, f.id)
	case !f.at.roots:
		return f.stillHasID(calls)
	case f.inMemory && !reads(f.fd, f.id):
		return false
	case now.changed.Equal(f.at.changed) && !f.young:
		return true
	}
	f.at, f.young = now, !now.changedBefore(time.Now())
	return f.stillHasID(calls)
}

// stillHasID is hasID with a time limit: a file of an overlay can be on a
// server.
func (f *stamped) stillHasID(calls *bounded.Calls) bool {
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0) // of the call, which may be given up
	if err != nil {
		return false
	}
	want, has := f.id, make(chan bool, 1)
	err = calls.Do(func() {
		defer unix.Close(fd)
		has <- hasID(fd, want)
	})
	if errors.Is(err, bounded.ErrRefused) { // it was not made
		_ = unix.Close(fd) // of a path
	}
	return err == nil && <-has
}

// refuse notes that a file cannot be held.
func (s *stamps) refuse(f *watchedFile) {
	if s.refused == nil || len(s.refused) >= maxStamped {
		s.refused = make(map[watchedAs]bool)
	}
	s.refused[f.as()] = true
}

func (s *stamps) drop(as watchedAs) {
	_ = unix.Close(s.by[as].fd) // of a path
	if s.inodes[as.inode] == s.by[as] {
		delete(s.inodes, as.inode)
	}
	delete(s.by, as)
	if s.names[as.mappedFile]--; s.names[as.mappedFile] == 0 {
		delete(s.names, as.mappedFile)
	}
	s.full = false
}

// lose notes that the build ID of a file is no longer known to be right.
func (s *stamps) lose(f *watchedFile) { s.lost = append(s.lost, f.mappedFile) }

// unsure takes the build ID of a mapping that there is no room to watch: it can be
// overwritten unseen. A program can map any number of files.
func (w *watchedFiles) unsure(m *procmap.Mapping) {
	if w.stamps.full && w.stamps.names[mappedFile{m.Name, m.BuildID}] == 0 {
		m.BuildID = elfid.ID{}
	}
}

// sweepStamps releases the files that no process has mapped, now and then.
func (w *watchedFiles) sweepStamps(now time.Time, drained tracefs.Time) {
	s := &w.stamps
	if now.Before(s.sweep) || len(s.by) == 0 {
		return
	}
	used := make(map[*space.File]bool)
	w.history.Spaces.Snapshot().Each(func(sp *space.Space) bool {
		if v := sp.At(drained); v != nil {
			for m := range v.Mappings.All() {
				used[m.File] = true
			}
		}
		return true
	})
	names := make(map[mappedFile]bool, len(used))
	for f := range used {
		names[mappedFile{f.Name, f.BuildID}] = true
	}
	for as := range s.by {
		if !names[as.mappedFile] {
			s.drop(as)
		}
	}
	s.sweep = now.Add(max(sweepEvery, time.Duration(float64(time.Since(now))/sweepCost)))
}

// close releases all files.
func (s *stamps) close() {
	for as := range s.by {
		s.drop(as)
	}
}
