package observed

import (
	"bytes"
	"slices"
	"strings"

	"ustack/tracefs"
)

// moment is what the dump knows of a process at a time: the versions that it can
// have had then.
type moment struct {
	versions []version
	// around are the versions of that time, whatever the name of the thread, and all
	// those of any time.
	around, all []version
	// covered: the dump speaks of that time, and not only of others.
	covered bool
	// beyond: it can be after the last reading of any process.
	beyond bool
	// whole: all versions have the same files in the same places, and the program's do not
	// come and go, so that there was nothing else either.
	whole bool
	// strange: no version is of a program with the thread's name.
	strange bool
	// open: the process may not have been read after that time.
	open bool
	// crowded: there are too many to look at.
	crowded bool
	key     momentKey
}

// momentKey names a moment: which versions of which process.
type momentKey struct {
	pid    int32
	lo, hi int32
}

const (
	// slack is how long after the dump began or ended it still speaks of what
	// was.
	slack = tracefs.Time(100e6)
)

// all are the versions of a thread's process.
func (d *Dump) all(tid int32) []version {
	pid, _ := d.Process(tid)
	return d.spaces[pid]
}

// at is what the dump knows of a thread's process at a time. timed means that the
// time is nanoseconds. comm is the thread's name, nil if unknown.
func (d *Dump) at(tid int32, at tracefs.Time, timed bool, comm []byte) moment {
	pid, _ := d.Process(tid)
	all := d.spaces[pid]
	m := moment{versions: all, around: all, all: all, key: momentKey{pid: pid, hi: int32(len(all))}}
	if len(all) == 0 || !timed || at-d.skew.most < d.first-slack || at-d.skew.least > d.last+slack {
		if m.crowded = len(all) > maxAgreed; m.crowded {
			return m
		}
		return d.checkName(m, pid == tid, comm, at, timed)
	}
	from, to := at-d.skew.most, at-d.skew.least
	lo, hi := after(all, from)-1, after(all, to)
	if hi == 0 || all[hi-1].until < to { // the next reading counts, too
		m.open = hi == len(all)
		hi = min(hi+1, len(all))
	}
	m.covered = lo >= 0
	m.beyond = to > d.last
	lo = max(lo, 0)
	m.covered = m.covered && !unread(all[lo:hi], from, to)
	m.versions, m.key.lo, m.key.hi = all[lo:hi], int32(lo), int32(hi)
	m.around = m.versions
	if m.crowded = len(m.versions) > maxHolding; m.crowded {
		return m
	}
	m.whole = m.covered && agree(m.versions) && !hasty(m.versions) && !(m.open && m.noted())
	return d.checkName(m, pid == tid, comm, at, timed)
}

// checkName checks a moment against the name of the thread, if it is the first one of its
// process, or else against that of the first one.
func (d *Dump) checkName(m moment, first bool, comm []byte, at tracefs.Time, timed bool) moment {
	switch {
	case first && comm != nil:
		return m.ofName(comm)
	case timed:
		return m.ofLeader(d.leaders.at(m.key.pid, at))
	}
	return m
}

// after is the index of the first version after a time.
func after(all []version, t tracefs.Time) int {
	i, _ := slices.BinarySearchFunc(all, t, func(v version, t tracefs.Time) int {
		if v.at <= t {
			return -1
		}
		return 1
	})
	return i
}

// agree reports whether versions of a process are one program with the same
// files in the same places.
func agree(versions []version) bool {
	for i := 1; i < len(versions); i++ {
		if !versions[i].unchanged {
			return false
		}
	}
	return true
}

// ofName checks a moment against the name of the thread. A first thread bears the
// name of its program: where that is another one, the dump has missed an exec, or
// the thread has renamed itself; which one is unknown.
func (m moment) ofName(comm []byte) moment {
	lo, hi := 0, len(m.versions)
	for lo < hi && !m.versions[lo].isNamed(comm) {
		lo++
	}
	for hi > lo && !m.versions[hi-1].isNamed(comm) {
		hi--
	}
	switch {
	case lo == 0 && hi == len(m.versions):
	case lo == hi:
		m.covered, m.whole, m.strange = false, false, true
	default:
		m.versions = m.versions[lo:hi]
		m.key.hi = m.key.lo + int32(hi)
		m.key.lo += int32(lo)
		m.whole = false
	}
	return m
}

func (v *version) isNamed(comm []byte) bool {
	return v.comm == "" || strings.TrimLeft(v.comm, " ") == string(bytes.TrimLeft(comm, " "))
}

// near is at for what needs the versions only.
func (d *Dump) near(tid int32, at tracefs.Time, timed bool) (versions []version, covered bool) {
	m := d.at(tid, at, timed, nil)
	return m.versions, m.covered
}
