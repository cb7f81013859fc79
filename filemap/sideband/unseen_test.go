package sideband

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf/perftest"
)

// steps are records of a process, in order.
type steps struct {
	ring, soft *testRing
	t          uint64
}

// Processes and threads of the tests: other is a thread of parent.
const (
	parent, other, sharer, heir = 100, 101, 102, 103
	codeAt, movedTo             = 0x10000, 0x50000
	codeSize                    = 4 * page
)

func newSteps() (*Band, *steps) {
	s := &steps{ring: fakeRing(0, 1<<16), soft: fakeRing(0, 1<<16)}
	b := fakeBand(s.ring, s.soft)
	b.rings.tracepoints, s.soft.soft = fakeTracepoints(), true
	s.t = uint64(b.Now()) - 1e9
	s.fork(parent, 1)
	s.next(func() []byte { return rawTask(unix.PERF_RECORD_FORK, parent, parent, other, parent, s.t, 0) })
	return b, s
}

func (s *steps) next(record func() []byte) {
	s.t += 1000
	s.ring.write(record())
}

// fork has a process make another one, by a call that began after all before.
func (s *steps) fork(child, of int) {
	s.calls(forking, of, of)
	s.forked(child, of)
}

// forked is fork by a call that is not recorded.
func (s *steps) forked(child, of int) {
	s.next(func() []byte { return rawTask(unix.PERF_RECORD_FORK, child, of, child, of, s.t, 0) })
}

// shares has the last child of a process share its memory.
func (s *steps) shares(of int) {
	s.next(func() []byte { return rawSample(sharing, of, of, s.t, unix.CLONE_VM) })
}

func (s *steps) share(child, of int) {
	s.fork(child, of)
	s.shares(of)
}

// ends ends a thread of a process.
func (s *steps) ends(pid, tid int) {
	s.next(func() []byte { return rawTask(unix.PERF_RECORD_EXIT, pid, 1, tid, 1, s.t, 0) })
}

// calls are the records of system calls of a thread of a process.
func (s *steps) calls(what change, pid, tid int, values ...uint64) {
	s.t += 1000
	s.soft.write(rawSample(what, pid, tid, s.t, values...))
}

func (s *steps) code(pid, tid int, at uint64) {
	s.next(func() []byte {
		return rawMap(pid, tid, at, codeSize, 0, rx, unix.MAP_PRIVATE, "/lib/code.so", s.t)
	})
}

func (s *steps) data(pid, tid int, at, size uint64) {
	s.t += 1000
	s.soft.write(raw(unix.PERF_RECORD_MMAP, unix.PERF_RECORD_MISC_USER, s.t, 0, perftest.IDs(pid, tid), perftest.U64(at, size, 0), perftest.Name("/[aio]")))
}

// segment attaches a shared segment.
func (s *steps) segment(pid, tid int, at, size uint64) {
	s.next(func() []byte {
		return raw(unix.PERF_RECORD_MMAP2, unix.PERF_RECORD_MISC_USER, s.t, 1, perftest.IDs(pid, tid), perftest.U64(at, size, 0),
			perftest.U32(0, 1), perftest.U64(77, 0), perftest.U32(rx, unix.MAP_SHARED), perftest.Name("/SYSV00000000 (deleted)"))
	})
}

// TestUnseenChanges: code does not count as there when it can have gone by what no record
// names: what stays with a parent, the rings of AIO, and a segment at a rounded address.
func TestUnseenChanges(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(s *steps)
		pid   int
		at    uint64
		stays bool
	}{
		"nothing": {func(s *steps) { s.code(parent, parent, codeAt); s.fork(heir, parent) }, heir, codeAt, true},
		"mapped by a thread that has ended, while another one forked unseen": {func(s *steps) {
			s.code(parent, other, codeAt)
			s.ends(parent, other)
			s.forked(heir, parent)
		}, heir, codeAt, false},
		"marked": {func(s *steps) {
			s.code(parent, parent, codeAt)
			s.calls(withholding, parent, parent, codeAt, codeSize)
			s.fork(heir, parent)
		}, heir, codeAt, false},
		"marked and moved": {func(s *steps) {
			s.code(parent, parent, codeAt)
			s.calls(withholding, parent, parent, codeAt, codeSize)
			s.calls(moving, parent, parent, codeAt, codeSize, codeSize, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, movedTo)
			s.calls(moved, parent, parent, movedTo)
			s.fork(heir, parent)
		}, heir, movedTo, false},
		"marked, and moved by a call that fails at another mapping": {func(s *steps) {
			s.code(parent, parent, codeAt)
			s.calls(withholding, parent, parent, codeAt, codeSize)
			s.calls(moving, parent, parent, codeAt, 2*codeSize, 2*codeSize, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, movedTo)
			s.calls(moved, parent, parent, failed(unix.EFAULT))
			s.code(parent, parent, movedTo) // as the process has it, when it is asked
			s.fork(heir, parent)
		}, heir, movedTo, false},
		"marked, and moved as a huge page": {func(s *steps) {
			const from, to, huge = 4 << 20, 8 << 20, 2 << 20
			s.code(parent, parent, from)
			s.calls(withholding, parent, parent, from, huge)
			s.calls(moving, parent, parent, from, page, page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, to)
			s.calls(moved, parent, parent, to)
			s.code(parent, parent, to+huge/2) // as the process has it, when it is asked
			s.fork(heir, parent)
		}, heir, 9 << 20, false},
		"only moved": {func(s *steps) {
			s.code(parent, parent, codeAt)
			s.calls(moving, parent, parent, codeAt, codeSize, codeSize, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, movedTo)
			s.calls(moved, parent, parent, movedTo)
			s.fork(heir, parent)
		}, heir, movedTo, true},
		"marked by a process that shared the memory": {func(s *steps) {
			s.code(parent, parent, codeAt)
			s.share(sharer, parent)
			s.calls(withholding, sharer, sharer, codeAt, codeSize)
			s.ends(sharer, sharer)
			s.fork(heir, parent)
		}, heir, codeAt, false},
		"marked before the process that forks was made": {func(s *steps) {
			s.code(parent, parent, codeAt)
			s.calls(withholding, parent, parent, codeAt, codeSize)
			s.share(sharer, parent)
			s.ends(parent, other)
			s.ends(parent, parent)
			s.fork(heir, sharer)
		}, heir, codeAt, false},
		"in a ring that cannot be set up": {func(s *steps) {
			s.calls(ringBegin, parent, other)
			s.data(parent, other, codeAt, codeSize)
			s.code(parent, parent, codeAt)
			s.calls(ringBegun, parent, other)
		}, parent, codeAt, false},
		"where a ring was set up": {func(s *steps) {
			s.calls(ringBegin, parent, other)
			s.data(parent, other, codeAt, codeSize)
			s.calls(ringBegun, parent, other)
			s.code(parent, parent, codeAt)
		}, parent, codeAt, true},
		"in a ring of a process that shared the memory": {func(s *steps) {
			s.calls(ringBegin, parent, parent)
			s.data(parent, parent, codeAt-page, page)
			s.calls(ringBegun, parent, parent)
			s.calls(ringEnd, parent, parent, codeAt-page)
			s.share(sharer, parent)
			s.calls(ringBegin, sharer, sharer)
			s.data(sharer, sharer, codeAt-page, page+codeSize)
			s.calls(ringBegun, sharer, sharer)
			s.ends(sharer, sharer)
			s.code(parent, parent, codeAt)
			s.calls(ringEnd, parent, parent, codeAt-page)
		}, parent, codeAt, false},
		"in a ring that was taken for a smaller one": {func(s *steps) {
			s.calls(ringBegin, parent, parent)
			s.calls(ringBegun, parent, parent) // it has failed
			s.data(parent, parent, codeAt-page, page)
			s.code(parent, parent, codeAt)
			s.calls(ringEnd, parent, parent, codeAt-page)
		}, parent, codeAt, false},
		"in a ring that came after another mapping to where a smaller one was": {func(s *steps) { smallRingMoved(s, movedTo-page) }, parent, movedTo + page, false},
		"in a ring that came there by a call that fails at another mapping":    {func(s *steps) { smallRingMoved(s, failed(unix.EFAULT)) }, parent, movedTo + page, false},
		"over a segment that goes": {func(s *steps) {
			s.segment(parent, parent, codeAt-page, 3*codeSize)
			s.code(parent, parent, codeAt)
			s.calls(detaching, parent, parent, codeAt-page)
		}, parent, codeAt, true},
		"over the beginning of a segment that goes": {func(s *steps) {
			s.segment(parent, parent, codeAt, 3*codeSize)
			s.code(parent, parent, codeAt)
			s.calls(detaching, parent, parent, codeAt)
		}, parent, codeAt, true},
		"in a segment that goes in parts": {func(s *steps) {
			s.segment(parent, parent, codeAt-page, 3*codeSize)
			s.code(parent, parent, codeAt)
			s.calls(detaching, parent, parent, codeAt-page)
		}, parent, codeAt + codeSize, false},
		"under a segment at an address that is rounded": {func(s *steps) {
			s.code(parent, parent, codeAt)
			s.calls(attachOver, parent, parent, codeAt+page/2)
		}, parent, codeAt, false},
	} {
		b, s := newSteps()
		c.do(s)
		if d, err := b.Drain(); err != nil || d.Malformed+int(d.Lost+d.Unseen) > 0 {
			t.Fatalf("%s: %+v, %v", name, d, err)
		}
		p, ok := b.History.Lookup(c.pid, c.at+0x10, tracefs.Time(s.t+1))
		if ok != c.stays {
			t.Errorf("%s: it counts as there: %v, %+v", name, ok, p.Mapping)
		}
	}
}

// failed is what a call returns that fails.
func failed(e unix.Errno) uint64 { return -uint64(e) }

// smallRingMoved has a process move a page and a ring to where a small one was, map code over that,
// and destroy it.
func smallRingMoved(s *steps, ret uint64) {
	ring := func(at, size uint64) {
		s.calls(ringBegin, parent, parent)
		s.data(parent, parent, at, size)
		s.calls(ringBegun, parent, parent)
	}
	const size = 2 * codeSize
	ring(movedTo, page)
	s.calls(ringEnd, parent, parent, movedTo)
	ring(codeAt, size)
	s.calls(moving, parent, parent, codeAt-page, page+size, page+size, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, movedTo-page)
	s.calls(moved, parent, parent, ret)
	s.code(parent, parent, movedTo+page)
	s.calls(ringEnd, parent, parent, movedTo)
}

// TestUnseenBounded: processes that share memory with others, without end, take bounded room,
// and what is forgotten for them is reported.
func TestUnseenBounded(t *testing.T) {
	var a aioRings
	var w withheld
	a.add(1, codeAt, codeSize)
	w.add(1, taken{codeAt, codeAt + codeSize})
	forgotten := false
	for pid := 2; pid < 3*maxRingProcesses; pid++ {
		a.shared(pid-1, pid)
		forgotten = w.shared(pid-1, pid) || forgotten
		if len(a.by) > maxRingProcesses || len(w.by) > maxWithholding {
			t.Fatalf("after %d processes, %d have rings, %d have marks", pid, len(a.by), len(w.by))
		}
	}
	if !forgotten || a.size([]int{2}, codeAt) != ringReach {
		t.Errorf("forgotten %v, a ring that is forgotten has %d bytes", forgotten, a.size([]int{2}, codeAt))
	}
}
