package futex

import "maps"

// lockMap is the locks of a process by their key. A thread of unknown process
// mostly has one.
type lockMap struct {
	key  lockKey
	one  *lock // at key, nil if there is none
	more map[lockKey]*lock
}

func (m *lockMap) get(key lockKey) *lock {
	if m.one != nil && m.key == key {
		return m.one
	}
	return m.more[key]
}

func (m *lockMap) put(key lockKey, l *lock) {
	switch {
	case m.one != nil && m.key == key, m.one == nil && m.more[key] == nil:
		m.key, m.one = key, l
	case m.more == nil:
		m.more = map[lockKey]*lock{key: l}
	default:
		m.more[key] = l
	}
}

func (m *lockMap) drop(key lockKey) {
	if m.one != nil && m.key == key {
		m.one = nil
	}
	delete(m.more, key)
}

func (m *lockMap) count() int {
	n := len(m.more)
	if m.one != nil {
		n++
	}
	return n
}

// each calls f for all.
func (m *lockMap) each(f func(key lockKey, l *lock)) {
	if m.one != nil {
		f(m.key, m.one)
	}
	for key, l := range m.more {
		f(key, l)
	}
}

// dropAll drops the locks that are gone.
func (m *lockMap) dropAll(gone func(*lock) bool) {
	if m.one != nil && gone(m.one) {
		m.one = nil
	}
	maps.DeleteFunc(m.more, func(_ lockKey, l *lock) bool { return gone(l) })
}
