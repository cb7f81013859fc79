package procmap

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fileSystem is what matters of the file system on a device.
type fileSystem struct {
	// apart: an inode number is one file. On btrfs it is not: a snapshot has the
	// numbers of its origin, and /proc/PID/maps shows one device for all
	// subvolumes. A server in user space, or of a host, gives any number. On
	// overlayfs a file that was written has the number of the one of the lower
	// layer, which processes may still have mapped (mappedFile.check).
	apart bool
	// watched: inotify sees all that changes, and looking at a file takes no
	// longer than the machine needs.
	watched bool
	// disk: reading does not, either.
	disk bool
}

// mounts has the mounted file systems, as they were in this round: a device can have
// another one next, and numbers of devices are used again.
type mounts map[Dev]fileSystem

// Bounds on the file systems that are kept, and on reading a process's mounts.
const (
	maxMounts    = 1 << 14
	maxMountInfo = 4 << 20
)

// system returns the file system that a mapping's file is on: as the mounts
// that the process has, or we have, show it.
func (h *Handle) system(m *Mapping) fileSystem {
	if m.Kind == Memfd {
		return fileSystem{} // of one that the kernel has mounted for itself
	}
	if h.r.mounts == nil || len(h.r.mounts) > maxMounts {
		h.r.mounts = make(mounts)
	}
	ms, dev := h.r.mounts, m.Dev
	if s, known := ms[dev]; known {
		return s
	}
	ms.read(h.r, strconv.Itoa(h.as))
	s, known := ms[dev]
	if !known {
		// The process can be in a chroot, which hides what lies above.
		ms.read(h.r, "self")
		s, known = ms[dev]
	}
	if !known {
		// Mounted elsewhere, or by the kernel for itself. Files on a disk are
		// distinct on any file system.
		s = fileSystem{apart: dev.Major != 0}
		ms[dev] = s
	}
	return s
}

// read adds the mounts of a process.
func (ms mounts) read(r *Reader, process string) {
	fd, err := r.open(process + "/mountinfo")
	if err != nil {
		return
	}
	defer closeFD(fd)
	text := make([]byte, 0, 16<<10)
	for len(text) < maxMountInfo {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := readFD(fd, text[len(text):cap(text)])
		if n <= 0 || err != nil {
			break
		}
		text = text[:len(text)+n]
	}
	for line := range bytes.Lines(text) {
		if dev, kind, ok := parseMount(line); ok {
			ms[dev] = systemOf(kind, dev)
		}
	}
}

// systemOf is what is known of a type of file systems. Those watched are the
// ones that only this kernel changes (local in filemap/watch), and where an inode
// number is one file.
func systemOf(kind string, dev Dev) fileSystem {
	name, _, _ := strings.Cut(kind, ".") // the server's
	switch name {
	case "btrfs", "overlay", "fuse", "fuseblk", "virtiofs", "9p":
		return fileSystem{}
	}
	s := fileSystem{apart: true}
	switch kind {
	case "ext2", "ext3", "ext4", "xfs", "f2fs", "squashfs", "erofs", "iso9660", "jffs2", "ubifs":
		s.watched, s.disk = true, dev.Major != 0
	case "tmpfs", "ramfs":
		s.watched = true
	case "vfat", "exfat", "ntfs3", "udf", "jfs", "nilfs2", "hfsplus":
		s.disk = dev.Major != 0
	}
	return s
}

// parseMount reads a line of /proc/PID/mountinfo (man proc_pid_mountinfo):
//
//	ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG]... - TYPE SOURCE OPTIONS
//
// The device is in decimal here. Blanks in names are escaped.
func parseMount(line []byte) (dev Dev, kind string, ok bool) {
	head, tail, found := bytes.Cut(line, []byte(" - "))
	fields := bytes.Fields(head)
	if !found || len(fields) < 3 {
		return dev, "", false
	}
	major, minor, found := bytes.Cut(fields[2], []byte(":"))
	a, okA := number(major)
	b, okB := number(minor)
	if !found || !okA || !okB {
		return dev, "", false
	}
	name, _, _ := bytes.Cut(tail, []byte(" "))
	return Dev{uint32(a), uint32(b)}, string(name), true
}

// Hidden reports whether proc is mounted such that we may not see all
// processes (hidepid, man 5 proc).
func (r *Reader) Hidden() bool {
	return unix.Geteuid() != 0 && HidePID(r.opt.Proc) != ""
}

// HidePID returns the mount option hidepid of proc, mounted at this place; ""
// if all users see all processes. CAP_SYS_PTRACE shows them anyway.
func HidePID(proc string) string {
	text, err := os.ReadFile(proc + "/self/mountinfo")
	if err != nil {
		return ""
	}
	hide := ""
	for line := range strings.Lines(string(text)) {
		head, tail, _ := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		const point = 4
		if len(fields) <= point || fields[point] != proc || !strings.HasPrefix(tail, "proc ") {
			continue
		}
		_, value, _ := strings.Cut(tail, "hidepid=")
		if value = strings.TrimSpace(value); value != "" {
			value, _, _ = strings.Cut(value, ",")
		}
		if hide = value; hide == "off" || hide == "0" {
			hide = ""
		}
	}
	return hide // of the last one, which lies on top
}
