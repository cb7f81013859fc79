package procmap

// Build IDs are read from the files that are mapped, never asked of the kernel
// (build_id_size of PROCMAP_QUERY, include/uapi/linux/fs.h), on no version of it.
// For that question the kernel reads and parses a file that any user can have
// made, and in most versions that have the ioctl this user can hurt the kernel,
// or the caller, that way:
//
//   - From 6.12 on (ad41251c290d, "lib/buildid: implement sleepable
//     build_id_parse() API") it calls a_ops->read_folio, which is NULL for shmem
//     (memfd, shared memory, tmpfs), hugetlb and DAX, for a page that is not
//     there, with the process's memory locked. Seen on Debian's 6.16.12 and
//     6.17.13. Fixed by 777a8560fd29 ("lib/buildid: use __kernel_read() for
//     sleepable context"), in 6.12.67 and 6.19.
//   - With that, it waits for the inode's lock with the memory locked
//     (CVE-2026-23199). Fixed by b5cbacd7f86f, in 6.12.70.
//   - With that, an ID longer than the room for it drops a reference too many.
//     Fixed by 61dc9f776705, in 7.0.
//   - It reads at any offset that the ELF header names, and 6.12 has no check that
//     this is not negative (9d926f10b7ff, "filemap: filemap_read() should check
//     that the offset is positive or zero", 6.13): a file of 64 bytes on ext4
//     keeps Debian's 6.12.107 in this loop until the caller is killed.
//   - Whatever the version, a file of a file system in user space blocks the caller
//     for as long as its server likes, and there is no way to ask with a time
//     limit: a signal does not end it.
//
// Its costs: opening and reading a file takes some 20 µs, the question some 6,
// once a file; and a process without the right to follow the links in
// /proc/PID/map_files (CAP_CHECKPOINT_RESTORE) gets no build ID of deleted files.
//
// A file is opened, looked at and read with a time limit (see bounded.Calls): on a disk,
// too, as the kernel waits for a process in the middle of an exec, see held.go, when a
// name in map_files is looked up again (map_files_d_revalidate in fs/proc/base.c).
// Package elfid bounds what else a file may do to its reader.

// identify gives a mapping the build ID and generation of its file: as they are
// known, or from the file itself. A file that could not be read has none, and
// is tried again at the next mapping of it. A vDSO is compared with that of this process.
func (h *Handle) identify(m *Mapping) {
	h.checkVDSO(m)
	if h.r.cached(m) {
		return
	}
	ids, system := h.r.opt.IDs, h.system(m)
	q := ids.ask(h.as, m, system.watched)
	f := newMappedFile(h.r, h.as, m)
	f.keep = system.apart && !q.guarded
	if !h.fileID(m, f, system) {
		return
	}
	m.BuildID, q.pin = f.id, f.pin
	if system.apart {
		ids.answer(q, m)
	}
}

// fileID reads the build ID from the file that is mapped, the zero ID if it has
// none. It reports whether the file could be had.
func (h *Handle) fileID(m *Mapping, f *mappedFile, system fileSystem) bool {
	if !h.r.opt.IDs.readBounded(f, system.disk) {
		f.leave()
		return false
	}
	if f.err == nil && (!f.unsure || h.stillMapped(m)) {
		return true
	}
	f.pin.drop()
	return false
}

// stillMapped reports whether the mapping is what it was, so that what its link
// in map_files led to meanwhile was its file.
func (h *Handle) stillMapped(m *Mapping) bool {
	same := func(start, end, offset, inode uint64, dev Dev) bool {
		return start == m.Start && end == m.End && offset == m.Offset && inode == m.Inode && dev == m.Dev
	}
	if h.r.opt.Source == Ioctl {
		b := h.r.buf
		return b.ask(h.fd, m.Start, 0, false) == 0 &&
			same(b.q.start, b.q.end, b.q.offset, b.q.inode, Dev{b.q.major, b.q.minor})
	}
	fd, err := h.r.waits.openMaps(h.as)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	still := false
	_ = scanText(fd, func(t *Mapping) bool { // an error is no mapping
		still = same(t.Start, t.End, t.Offset, t.Inode, t.Dev)
		return t.Start < m.Start
	})
	return still
}

// scanText reads an open /proc/PID/maps with its own memory, so that it can be
// done while another one is being read.
func scanText(fd int, fn func(m *Mapping) bool) error {
	var r Reader
	return r.readText(fd, fn)
}
