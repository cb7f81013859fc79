package sideband

import (
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/threadcall"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// A call that was entered before the rings were open, or while records were lost, can have
// its effect after a process was read, and no record shows it. So the code of a process is
// known when each of its threads has been outside of such calls since then, and the process
// was read after that.

// underWay are the processes and threads of which that is known.
type underWay struct {
	// since is from when on all calls are recorded.
	since tracefs.Time
	// find finds out where a thread is; nil before the first reading.
	find func(pid, tid int) threadcall.Place
	// sure are the processes without such calls, outside the threads of others, open the
	// processes that were read and are neither.
	sure, outside map[int]bool
	open          map[int]bool
}

// settling is what is known of a process: of settledNow, its code has to be read again.
type settling uint8

const (
	unsettled settling = iota
	settledNow
	settled
)

// begin notes that calls that began before a time may be under way unseen.
func (u *underWay) begin(since tracefs.Time) {
	u.since = max(u.since, since)
	u.sure, u.outside, u.open = make(map[int]bool), make(map[int]bool), make(map[int]bool)
}

// saw notes a record of a thread: what it called before is over.
func (u *underWay) saw(r *perf.Record) {
	switch {
	case len(u.open) == 0 || r.Time <= u.since:
	case r.Type == unix.PERF_RECORD_SAMPLE, r.Type == unix.PERF_RECORD_MMAP, r.Type == unix.PERF_RECORD_MMAP2, r.Type == unix.PERF_RECORD_EXIT:
		if len(u.outside) < maxOutside {
			u.outside[r.TID] = true
		}
	}
}

// maxOutside bounds the threads that are remembered.
const maxOutside = 1 << 16

// settler finds out which processes can be in a call that was not recorded.
type settler struct {
	*Band
	r *procmap.Reader
}

// newSettler has the place of threads looked up by a Reader.
func newSettler(b *Band, r *procmap.Reader) settler {
	b.underWay.lookUpBy(r)
	return settler{b, r}
}

// lookUpBy has the place of threads looked up by a Reader.
func (u *underWay) lookUpBy(r *procmap.Reader) {
	if u.find != nil {
		return
	}
	places := threadcall.New(r)
	u.find = func(pid, tid int) threadcall.Place {
		place := places.Find(pid, tid, u.since)
		if place == threadcall.Inside && places.Hidden(pid, tid) {
			return threadcall.Elsewhere // which cannot be known
		}
		return place
	}
}

// settle finds out whether a process, or one that shares its memory, can be in a call that
// was not recorded.
func (b settler) settle(pid int) settling {
	u := &b.underWay
	state := settled
	b.History.each(pid, func(pid int) {
		if u.sure[pid] || pid == os.Getpid() || b.bornSince(pid) { // we unmap no code
			return
		}
		if !b.allOutside(pid) {
			state = unsettled
			u.open[pid] = true
			return
		}
		u.sure[pid] = true
		delete(u.open, pid)
		state = min(state, settledNow)
	})
	return state
}

// bornSince reports whether a process, or its program, began when all calls were recorded.
func (b settler) bornSince(pid int) bool {
	s := b.History.Spaces.Space(pid)
	if s == nil {
		return false
	}
	began, exactly := s.BeganExactly(b.drained)
	return exactly && began > b.underWay.since
}

// allOutside reports whether each thread of a process has been outside of such calls.
func (b settler) allOutside(pid int) bool {
	u := &b.underWay
	threads, err := b.r.Threads(pid)
	if err != nil {
		return true // it has ended
	}
	return !slices.ContainsFunc(threads, func(tid int) bool {
		if u.outside[tid] {
			return false
		}
		if born, _, ok := b.History.Threads.Life(tid, b.drained); ok && born > u.since {
			return false
		}
		if u.find(pid, tid) == threadcall.Inside {
			return true
		}
		if len(u.outside) < maxOutside {
			u.outside[tid] = true
		}
		return false
	})
}

// everything is what a call may take away of which nothing is known.
var everything = taken{0, math.MaxUint64}

const (
	// settleFor is how long Refresh waits for threads that run: the code of their
	// processes is unknown until they are read again.
	settleFor  = 100 * time.Millisecond
	settleStep = 2 * time.Millisecond
)

// settleAll reads the processes again that can have been in such calls, when they are not
// any more.
func (b settler) settleAll() {
	u := &b.underWay
	for began := time.Now(); len(u.open) > 0 && time.Since(began) < settleFor; time.Sleep(settleStep) {
		for pid := range u.open {
			if b.allOutside(pid) {
				delete(u.open, pid)
				_ = b.Read(b.r, pid, b.History.Gaps.from()) // it may have ended
			}
		}
	}
}
