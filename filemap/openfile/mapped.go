//go:build !device

package openfile

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KeepsMapped is whether a Begin keeps what was Mapped.
const KeepsMapped = true

// Mapped is a file that a process has mapped, as its file system has it.
type Mapped struct {
	Major, Minor uint32
	Inode        uint64
	Changed      time.Time // last
}

// mappedFiles are the files that were mapped in a live trace, by what its stacks know of them:
// path and build ID, which more than one can have. It may be used by several goroutines.
type mappedFiles struct {
	mu   sync.Mutex
	by   map[named]*mapping
	full bool
	news uint64
	// fed: all mappings of the trace are noted.
	fed bool
	// mounts shows whether another file system was mounted at a path since, remounted that it did.
	mounts    *os.File
	remounted bool
}

// begin begins to watch the mounts.
func (f *mappedFiles) begin() {
	// Go would poll it, and take the news, if os opened it.
	if fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		f.mounts = os.NewFile(uintptr(fd), "mounts") // is closed once it is unused
	}
}

// mayBeElsewhere reports whether a path may have led to another file since, which shows nowhere once
// that is mounted no more. It does not matter where all mappings are noted. The caller has locked.
func (f *mappedFiles) mayBeElsewhere() bool {
	if f.fed || f.remounted {
		return !f.fed
	}
	f.remounted = f.mounts == nil || has(f.mounts, unix.POLLPRI)
	return f.remounted
}

type named struct{ path, id string }

// mapping is what is known of all mappings of a path and a build ID.
type mapping struct {
	Mapped
	// settled: another change of the file has another time. unsure: not all of them are known to
	// be of this file.
	settled, unsure bool
	// differs: another one is known to have been mapped. unsures counts the calls of Unsure.
	differs bool
	unsures uint64
	// open is how many mappings are still to be made sure of.
	open int
}

// maxMapped bounds the files.
const maxMapped = 1 << 14

// of returns what is known of a file. It locks.
func (b *Begin) of(path, id string) *mapping {
	f := &b.files
	f.mu.Lock()
	m := f.by[named{path, id}]
	if m != nil {
		return m
	}
	if f.full = f.full || len(f.by) >= maxMapped; f.full {
		return &mapping{unsure: true} // is not kept
	}
	if f.by == nil {
		f.by = make(map[named]*mapping)
	}
	m = new(mapping)
	f.by[named{path, id}] = m
	return m
}

// Fed notes that Mapped, Open or Unsure will be called for each mapping of a file.
func (b *Begin) Fed() {
	b.files.mu.Lock()
	defer b.files.mu.Unlock()
	b.files.fed = true
}

// Mapped notes that a file was mapped, which a process had at a path and which has a build ID.
func (b *Begin) Mapped(path, id string, is Mapped) {
	m := b.of(path, id)
	defer b.files.mu.Unlock()
	switch {
	case m.Inode == 0:
		m.Mapped = is
	case m.Mapped != is:
		m.unsure, m.differs = true, true
	}
}

// Settled notes that each further change of the file has another time.
func (b *Begin) Settled(path, id string) {
	m := b.of(path, id)
	defer b.files.mu.Unlock()
	m.settled = true
	b.files.news++
}

// Open notes that a file was mapped that is still to be made sure of.
func (b *Begin) Open(path, id string) {
	m := b.of(path, id)
	defer b.files.mu.Unlock()
	m.open++
}

// Sure notes that one that was Open is the file that was Mapped.
func (b *Begin) Sure(path, id string) {
	m := b.of(path, id)
	defer b.files.mu.Unlock()
	m.open--
	b.files.news++
}

// Unsure notes that a file was mapped that may be another one.
func (b *Begin) Unsure(path, id string) {
	m := b.of(path, id)
	defer b.files.mu.Unlock()
	m.unsure = true
	m.unsures++
}

// News is another number once Settled or Sure was called again: then CheckOwner may have another result.
func (b *Begin) News() uint64 {
	if b == nil {
		return 0
	}
	b.files.mu.Lock()
	defer b.files.mu.Unlock()
	return b.files.news
}

// isMapped reports whether an open file surely is what all who had one with its path and build ID
// have mapped, and has not changed since. doubted reports later whether that is so no more.
func (b *Begin) isMapped(path, id string, st *syscall.Stat_t) (doubted func() bool, ok bool) {
	if b == nil || id == "" {
		return nil, false
	}
	is := mappedAs(st)
	m := b.of(path, id)
	defer b.files.mu.Unlock()
	doubted = func() bool {
		b.files.mu.Lock()
		defer b.files.mu.Unlock()
		return m.unsure
	}
	return doubted, m.settled && !m.unsure && m.open == 0 && m.Mapped == is && !has(b.clock, unix.POLLIN)
}

func mappedAs(st *syscall.Stat_t) Mapped {
	return Mapped{unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino, time.Unix(st.Ctim.Unix())}
}

// staysMapped is isMapped for an open file that has been at its path since the Begin, which same
// and unchanged show: same that the file itself has not changed, which it does where another one
// takes its place, and unchanged that nothing on the way has. What is mapped later can be another
// one; and in another mount namespace it can have been all the time. Where mappings are not noted,
// each may be of another one.
func (b *Begin) staysMapped(path, id string, st *syscall.Stat_t, same, unchanged func() bool) (doubted func() bool, ok bool) {
	is := mappedAs(st)
	m := b.of(path, id)
	kept, unsures := b.files.by[named{path, id}] == m, m.unsures
	another := func() bool { return m.differs || m.Inode != 0 && m.Mapped != is }
	ok = kept && !another() && !b.files.mayBeElsewhere()
	b.files.mu.Unlock()
	doubted = func() bool {
		b.files.mu.Lock()
		doubt, news := another() || b.files.mayBeElsewhere(), m.unsures != unsures || !b.files.fed
		unsures = m.unsures
		b.files.mu.Unlock()
		return doubt || !same() || news && !unchanged()
	}
	return doubted, ok
}
