package procmap

import (
	"bytes"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mounts knows on which devices an inode number is one file. On btrfs it is
// not: a snapshot has the numbers of its origin, and /proc/PID/maps shows one
// device for all subvolumes.
type mounts struct {
	apart map[Dev]bool
	since time.Time
}

// Bounds on what is remembered, for how long (numbers of devices are used
// again), and on what is read of a process's mounts.
const (
	maxMounts    = 1 << 14
	maxMountAge  = time.Minute
	maxMountInfo = 4 << 20
)

// tellsFilesApart reports whether a device's inode numbers tell its files
// apart. Disks do. File systems without a disk of their own have major 0, and
// are looked up in the mounts that the process has.
func (h *Handle) tellsFilesApart(dev Dev) bool {
	if dev.Major != 0 {
		return true
	}
	ms := &h.r.mounts
	if now := time.Now(); ms.apart == nil || len(ms.apart) > maxMounts || now.Sub(ms.since) > maxMountAge {
		ms.apart, ms.since = make(map[Dev]bool), now
	}
	apart, known := ms.apart[dev]
	if known {
		return apart
	}
	ms.read(h.r, h.pid)
	apart = ms.apart[dev]
	ms.apart[dev] = apart // mounted elsewhere, or by the kernel for itself: who knows
	return apart
}

// read adds the mounts of a process.
func (ms *mounts) read(r *Reader, pid int) {
	fd, err := r.openOf(pid, "mountinfo")
	if err != nil {
		return
	}
	defer unix.Close(fd)
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
		if dev, apart, ok := parseMount(line); ok {
			ms.apart[dev] = apart
		}
	}
}

// parseMount reads a line of /proc/PID/mountinfo (man proc_pid_mountinfo):
//
//	ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG]... - TYPE SOURCE OPTIONS
//
// The device is in decimal here. Blanks in names are escaped.
func parseMount(line []byte) (dev Dev, apart, ok bool) {
	head, tail, found := bytes.Cut(line, []byte(" - "))
	fields := bytes.Fields(head)
	if !found || len(fields) < 3 {
		return dev, false, false
	}
	major, minor, found := bytes.Cut(fields[2], []byte(":"))
	a, okA := number(major)
	b, okB := number(minor)
	if !found || !okA || !okB {
		return dev, false, false
	}
	kind, _, _ := bytes.Cut(tail, []byte(" "))
	return Dev{uint32(a), uint32(b)}, string(kind) != "btrfs", true
}

// Hidden reports whether proc is mounted such that we may not see all
// processes (hidepid, man 5 proc).
func (r *Reader) Hidden() bool {
	return unix.Geteuid() != 0 && HidePID(r.opt.Proc) != ""
}

// HidePID is the mount option hidepid of proc, mounted at this place; "" if all
// users see all processes. Who has CAP_SYS_PTRACE sees them anyway.
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
