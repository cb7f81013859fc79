// Package owner reads the owner of a lock from the memory of the process that
// has it, while a thread waits there. Nothing is stopped, and nothing is
// guessed: memory that is not exactly a lock as the C library lays it out has
// no owner.
package owner

import (
	"errors"
	"fmt"
	"path"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
)

// Why there is no owner.
var (
	// errMoved: the thread does not wait at that futex, or not any more.
	errMoved = errors.New("the thread does not wait there any more")
	// errNoLock: the memory is no lock that is held, of the kinds whose layout
	// is known.
	errNoLock = errors.New("no mutex of glibc, and no PI futex")
	// errNoThread: no thread of the process has the number in the lock.
	errNoThread = errors.New("the owner is no thread of the process")
	// errShared: the owner can be in another process, and in another PID namespace, where
	// a thread can have the number of one of this process.
	errShared = errors.New("the lock is in shared memory, and its owner's number can be of another PID namespace")
)

// How says where an owner's number is stored.
type How uint8

const (
	// PI: in the word itself, as the kernel wants it (futex(2), "Priority-
	// inheritance futexes").
	PI How = iota
	// Glibc: in pthread_mutex_t.__data.__owner (sysdeps/nptl/bits/
	// struct_mutex.h), of a process that runs with libc.so.6.
	Glibc
)

// Owner is the owner of a lock.
type Owner struct {
	TID int // as /proc has it
	How How
}

// Reader reads owners. It is for one goroutine.
type Reader struct {
	maps   *procmap.Reader
	all    *procmap.Reader
	memory *procmem.Reader
	calls  *bounded.Calls
	p      procmap.Process
}

// NewReader returns a Reader that finds processes by maps, which must read
// executable mappings, and memory by all, which must read all mappings.
func NewReader(maps, all *procmap.Reader) *Reader {
	return &Reader{maps: maps, all: all, memory: procmem.New(0), calls: bounded.New(textWait)}
}

// Read reads the owner of the lock at an address of a process, for which thread
// tid waits. The thread waits there before and after the reading, so the owner
// belongs to this wait. It needs the right to trace the process
// (CAP_SYS_PTRACE).
func (r *Reader) Read(pid, tid int, addr uint64) (Owner, error) {
	before, err := r.call(pid, tid)
	if err != nil {
		return Owner{}, err
	}
	if !before.waits(addr) {
		return Owner{}, fmt.Errorf("reading the owner of %#x in process %d: %w", addr, pid, errMoved)
	}
	var m mutex
	if err := m.read(r.memory, pid, addr); err != nil {
		return Owner{}, err
	}
	after, err := r.call(pid, tid)
	if err == nil && after != before {
		err = errMoved
	}
	var number int
	o := Owner{How: PI}
	if err == nil {
		number, o.How, err = r.number(pid, &before, &m)
	}
	if err == nil {
		o.TID, err = r.thread(pid, number)
	}
	if err != nil {
		return Owner{}, fmt.Errorf("reading the owner of %#x in process %d: %w", addr, pid, err)
	}
	return o, nil
}

// number returns the owner's number as the lock has it.
func (r *Reader) number(pid int, c *call, m *mutex) (int, How, error) {
	switch {
	case c.pi():
		if n := m.pi(); n > 0 {
			return n, PI, nil
		}
	case c.wants(m.lock):
		n := m.glibc()
		switch {
		case n == 0 || !r.hasGlibc(pid):
		case m.kind&kindShared != 0 && !r.ownMemory(pid, c.args[0]):
			return 0, Glibc, errShared
		default:
			return n, Glibc, nil
		}
	}
	return 0, PI, errNoLock
}

// ownMemory reports whether no other process can have the memory at an address.
func (r *Reader) ownMemory(pid int, addr uint64) bool {
	h, err := r.all.Open(pid)
	if err != nil {
		return false
	}
	defer h.Close()
	m, ok, err := h.At(addr)
	return err == nil && ok && m.Perms&procmap.Shared == 0
}

// hasGlibc reports whether a process runs with glibc, by the library's name, which
// no other library uses.
func (r *Reader) hasGlibc(pid int) bool {
	if r.maps.Process(pid, &r.p) != nil {
		return false
	}
	for i := range r.p.Mappings {
		switch m := &r.p.Mappings[i]; path.Base(m.Name) {
		case "libc.so.6", "libpthread.so.0":
			return true
		}
	}
	return false
}
