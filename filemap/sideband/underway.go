package sideband

import (
	"math"
	"os"
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
	// look is when Drain may look again at those that are open; waited: Refresh has waited
	// for them.
	look   time.Time
	waited bool
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
	case r.Exec(), r.Type == unix.PERF_RECORD_FORK && !r.Thread():
		delete(u.open, r.PID) // another program, or another process of this number
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

// open reports whether a process, or one that shares its memory, was read while it could
// be in a call that was not recorded, and still can be.
func (b settler) open(pid int) (open bool) {
	b.History.each(pid, func(pid int) {
		open = open || b.underWay.open[pid] && !b.bornSince(pid) && !b.allOutside(pid)
	})
	return open
}

// allOutside reports whether each thread of a process has been outside of such calls. It
// looks at all of them: one that runs is known to be outside only when it has run on for a
// while after it was found first.
func (b settler) allOutside(pid int) bool {
	threads, err := b.r.Threads(pid)
	if err != nil {
		return true // it has ended
	}
	all := true
	for _, tid := range threads {
		all = b.isOutside(pid, tid) && all
	}
	return all
}

// isOutside reports whether a thread has been outside of such calls.
func (b settler) isOutside(pid, tid int) bool {
	u := &b.underWay
	if u.outside[tid] {
		return true
	}
	if born, _, ok := b.History.Threads.Life(tid, b.drained); ok && born > u.since {
		return true
	}
	if u.find(pid, tid) == threadcall.Inside {
		return false
	}
	if len(u.outside) < maxOutside {
		u.outside[tid] = true
	}
	return true
}

// everything is what a call may take away of which nothing is known.
var everything = taken{0, math.MaxUint64}

const (
	// settleFor is how long the first Refresh waits for threads that run: the code of
	// their processes is unknown until they are read again.
	settleFor  = 500 * time.Millisecond
	settleStep = 2 * time.Millisecond
	// settleEvery is how often Drain looks at them after that. It may take 1/settleCost of
	// all time.
	settleEvery, settleCost = 10 * time.Millisecond, 10
)

// settleAll reads the processes again that can have been in such calls, when they are not
// any more. It waits for that before there is a trace: later ones lose its records meanwhile,
// and gain nothing.
func (b settler) settleAll() {
	if b.underWay.waited {
		b.settleOpen(b.History.Gaps.from())
		return
	}
	b.underWay.waited = true
	for began := time.Now(); len(b.underWay.open) > 0 && time.Since(began) < settleFor; time.Sleep(settleStep) {
		b.settleOpen(b.History.Gaps.from())
	}
}

// settleOpen reads those again that are not any more. The history of times before after
// does not change.
func (b settler) settleOpen(after tracefs.Time) {
	u := &b.underWay
	for pid := range u.open {
		if !b.open(pid) {
			delete(u.open, pid)
			_ = b.readAgain(b.r, pid, after) // it may have ended
		}
	}
}

// settleLater does so between two calls of Refresh, every now and then.
func (u *underWay) settleLater(b *Band) {
	began := time.Now()
	if len(u.open) == 0 || began.Before(u.look) || b.completer.reader == nil {
		return
	}
	newSettler(b, b.completer.reader).settleOpen(max(b.History.Gaps.from(), b.reached))
	u.look = time.Now().Add(max(settleEvery, settleCost*time.Since(began)))
}

// maps makes a range unknown that a process maps that is open: the call may take it away
// again.
func (u *underWay) maps(c *calls, r *perf.Record) {
	if len(u.open) == 0 || r.Time <= u.since {
		return
	}
	open := false
	c.history.each(r.PID, func(pid int) { open = open || u.open[pid] })
	if open {
		c.unknown(r, r.Addr, r.Len)
	}
}
