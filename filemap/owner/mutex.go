package owner

import (
	"encoding/binary"

	"ustack/filemap/procmem"
)

// mutex is the beginning of pthread_mutex_t as glibc has it since 2.3 on 64-bit
// machines, or any 24 bytes.
type mutex struct {
	lock, count, owner, users, kind uint32
}

const mutexSize = 24

func (m *mutex) read(memory *procmem.Reader, pid int, addr uint64) error {
	var b [mutexSize]byte
	if err := memory.Read(pid, procmem.Part{Addr: addr, To: b[:]}); err != nil {
		return err
	}
	m.parse(b[:])
	return nil
}

func (m *mutex) parse(b []byte) {
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(b[4*i:]) }
	*m = mutex{word(0), word(1), word(2), word(3), word(4)}
}

// locked is the value of __lock while threads wait (lowlevellock.h: 2 is
// "acquired, possibly with waiters").
const locked = 2

// Bits of the word of a PI futex (linux/futex.h): the owner's number, and that
// the owner is gone.
const (
	tidMask   = 0x3fffffff
	ownerDied = 0x40000000
)

// pi returns the owner in the word of a PI futex, 0 if none.
func (m *mutex) pi() int {
	if m.lock&ownerDied != 0 {
		return 0
	}
	return int(m.lock & tidMask)
}

// Of __kind (nptl/pthreadP.h): the lowest bits are the type, and these may be set
// besides: process-shared, and what lock elision was found to be.
const (
	typeMask   = 0x7f
	kindShared = 0x80
	kindElided = 0x300
	kindRobust = 0x10
	recursive  = 1 // PTHREAD_MUTEX_RECURSIVE_NP
	adaptive   = 3 // PTHREAD_MUTEX_ADAPTIVE_NP, the last of the types
)

// waiters is FUTEX_WAITERS (linux/futex.h).
const waiters = 1 << 31

// glibc returns the owner of a mutex that is held and waited for, 0 if it is
// not exactly that. The word of a robust one has the owner too.
func (m *mutex) glibc() int {
	kind, word := m.kind&typeMask, uint32(locked)
	counted := kind == recursive // how often the owner has taken it
	if kind&kindRobust != 0 {
		kind, word, counted = kind&^kindRobust, m.owner|waiters, true
	}
	switch {
	case m.lock != word, m.kind&^(typeMask|kindShared|kindElided) != 0, kind > adaptive:
		return 0
	case m.users == 0, m.users > 1<<20: // threads that use it: one, and those in pthread_cond_wait
		return 0
	case counted != (m.count > 0), m.owner > tidMask:
		return 0
	}
	return int(m.owner)
}
