package sideband

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
	"ustack/tracefs/privilege"
)

// completer finds build IDs that the kernel did not report: it looks only at the
// notes of program headers, and only at pages in memory. It does not find IDs
// that the Go linker writes, for one.
type completer struct {
	reader *procmap.Reader // nil if there is none
	calls  *bounded.Calls  // that open files by their path; nil before the first
	mounts mounts
	wall   wallClock
	asked  []suspect // files that may not have been mapped all the time
	known  map[string]fileID
}

// fileID is the build ID of a file that has not changed since.
type fileID struct {
	version version
	id      elfid.ID
	// at is a time since which the file was at its path, unless mounts have changed.
	at tracefs.Time
}

// version identifies a file, and shows whether it was written meanwhile.
type version struct {
	dev, inode     uint64
	size           int64
	mtime, changed unix.Timespec
}

func versionOf(st *unix.Stat_t) version {
	return version{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim}
}

const (
	maxKnown = 1 << 14
	// coarse is more than the lag of a change's time: a tick.
	coarse = 20 * time.Millisecond
)

// complete gives a mapping that was made at t the build ID of its file.
func (c *completer) complete(pid int, m *procmap.Mapping, t tracefs.Time) {
	if !m.Kind.HasFile() || m.Inode == 0 || !strings.HasPrefix(m.Name, "/") || inKernel(m.Name) {
		return
	}
	if m.Kind == procmap.File {
		if id, ok := c.byPath(m, t); ok {
			m.BuildID = id
			return
		}
	}
	if c.ask(pid, m, c.wall.at(t)); m.BuildID.IsZero() || c.mounts.stays(m.Dev) {
		return
	}
	if len(c.asked) >= maxStamped {
		m.BuildID = elfid.ID{}
		return
	}
	f := suspect{in: pid, start: m.Start, at: t, looked: perf.Now(c.mounts.clock)}
	f.mappedFile = mappedFile{m.Name, m.BuildID}
	c.asked = append(c.asked, f)
}

// bounded makes the calls that a server can hold up. A process can have any file
// system at a path, and a mapped file of a server that may stop answering.
func (c *completer) bounded() *bounded.Calls {
	if c.calls == nil {
		c.calls = bounded.New(0)
	}
	return c.calls
}

// inKernel reports whether a file is one of the kernel's: reading it can have
// effects.
func inKernel(name string) bool {
	return strings.HasPrefix(name, "/proc/") || strings.HasPrefix(name, "/sys/") ||
		strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/dev/shm/")
}

// byPath reads the ID of the file that has the name here, if that is the one,
// and was not changed since it was mapped. The process need not exist any more.
// By now the path can lead to a file whose server does not answer.
func (c *completer) byPath(m *procmap.Mapping, t tracefs.Time) (id elfid.ID, ok bool) {
	f := &namedFile{m: *m, wall: c.wall.at(t)}
	f.known, f.isKnown = c.known[m.Name]
	f.isKnown = f.isKnown && c.mounts.stand(m.Dev, f.known.at)
	if c.bounded().Do(f.read) != nil || !f.ok || !c.mounts.stand(m.Dev, t) {
		return elfid.ID{}, false
	}
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = make(map[string]fileID)
	}
	f.found.at = t
	c.known[m.Name] = f.found
	return f.found.id, true
}

// namedFile is a file to be read by its name, and the result. It shares no
// memory with the completer: the read may be given up, and goes on then.
type namedFile struct {
	m       procmap.Mapping
	wall    time.Time
	known   fileID
	isKnown bool

	found fileID
	ok    bool
}

// read reads the ID, unless it is known.
func (f *namedFile) read() {
	// The path alone is opened first, which does nothing to devices and pipes.
	at, err := openfile.AtPath(f.m.Name)
	if err != nil {
		return
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil || !isOf(&st, &f.m) || openfile.Check(at) != nil || !openfile.Numbered(at) || !ownDevice(openfile.System(at)) {
		return
	}
	if !openfile.ChangedBefore(time.Unix(st.Ctim.Unix()), f.wall) {
		return
	}
	f.found.version = versionOf(&st)
	if f.isKnown && f.known.version == f.found.version {
		f.found, f.ok = f.known, true
		return
	}
	f.found.id, f.ok = readID(at, f.found.version)
}

// isOf reports whether a mapping maps a file.
func isOf(st *unix.Stat_t, m *procmap.Mapping) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Ino == m.Inode && deviceOf(st) == m.Dev
}

// readID reads the ID of a file by the descriptor of its path, the zero ID if
// it has none. ok is false if it was written meanwhile.
func readID(at int, is version) (id elfid.ID, ok bool) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return elfid.ID{}, false
	}
	f, err := openfile.AsFile(fd, "")
	if err != nil {
		return elfid.ID{}, false
	}
	defer f.Close()
	if id, err = elfid.Read(f); err != nil {
		id = elfid.ID{}
	}
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil || versionOf(&st) != is {
		return elfid.ID{}, false
	}
	return id, true
}

// ask reads the process itself, if it is still there and has the mapping. The number of
// an inode can be another file's by then, at the same place: a file that is not older
// than the mapping does not count.
func (c *completer) ask(pid int, m *procmap.Mapping, wall time.Time) {
	if c.reader == nil {
		return
	}
	h, err := c.reader.Open(pid)
	if err != nil {
		return
	}
	defer h.Close()
	found, ok, err := h.At(m.Start)
	if err != nil || !ok || found.Inode != m.Inode || found.Dev != m.Dev {
		return
	}
	if c.older(pid, &found, wall) {
		m.BuildID, m.Generation = found.BuildID, found.Generation
	}
}

// older reports whether the file that a process has mapped was made before a time. No
// server is asked.
func (c *completer) older(pid int, m *procmap.Mapping, wall time.Time) bool {
	proc := c.reader.Proc()
	link := fmt.Sprintf("%s/%d/map_files/%x-%x", proc, pid, m.Start, m.End)
	got := make(chan pathFile, 1)
	// The kernel waits for a process in the middle of an exec.
	err := c.bounded().Do(func() {
		defer privilege.RaiseIn(proc).Lower()
		f, _ := statAt(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC)
		got <- f
	})
	if err != nil {
		return false
	}
	f := <-got
	made := f.born
	if made.IsZero() {
		made = f.changed
	}
	return f.id.Inode == m.Inode && openfile.ChangedBefore(made, wall)
}
