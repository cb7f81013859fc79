package sideband

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// watch notes whether a process changes while it is read.
type watch struct {
	pid   int
	since tracefs.Time
	// start and end are the addresses that matter; all if both are 0.
	start, end uint64
	changed    bool
	// taken are the ranges unmapped meanwhile, before or after the reading came
	// there.
	taken []taken
	// lost: there was more.
	lost bool
}

// taken is a range of addresses.
type taken struct{ start, end uint64 }

// maxTaken bounds the ranges that are remembered; beyond it, a reading is not used.
const maxTaken = 1 << 7

// note notes a record. same means that it is of the memory that is watched.
func (w *watch) note(r *perf.Record, same bool) {
	if r.Type == unix.PERF_RECORD_MMAP2 {
		w.overlap(same && r.Time > w.since, r.Addr, r.Addr+r.Len)
		return
	}
	w.changed = w.changed || r.PID == w.pid && r.Time > w.since
}

// overlap notes a change between two addresses.
func (w *watch) overlap(same bool, start, end uint64) {
	w.changed = w.changed || same && (w.end == 0 || start < w.end && end > w.start)
}

// took notes that a process unmaps a range.
func (w *watch) took(start, end uint64) {
	switch {
	case w.end != 0:
		w.overlap(true, start, end)
	case w.grew(start, end):
	case len(w.taken) == maxTaken:
		w.changed, w.lost = true, true
	default:
		w.taken = append(w.taken, taken{start, end})
	}
}

// grew takes a range into the last one if they touch: the heaps of some programs grow
// by a page at a time.
func (w *watch) grew(start, end uint64) bool {
	if len(w.taken) == 0 {
		return false
	}
	last := &w.taken[len(w.taken)-1]
	if start > last.end || end < last.start {
		return false
	}
	last.start, last.end = min(start, last.start), max(end, last.end)
	return true
}

// overtaken reports whether any mapping of a reading may have been unmapped
// since.
func (w *watch) overtaken(ms []procmap.Mapping) bool {
	return slices.ContainsFunc(w.taken, func(t taken) bool {
		return slices.ContainsFunc(ms, func(m procmap.Mapping) bool { return m.Start < t.end && t.start < m.End })
	})
}

// left returns the mappings of a reading that have not been unmapped since.
func (w *watch) left(ms []procmap.Mapping) []procmap.Mapping {
	for _, t := range w.taken {
		var out []procmap.Mapping
		for _, m := range ms {
			if m.Start >= t.end || t.start >= m.End {
				out = append(out, m)
				continue
			}
			if before := m; m.Start < t.start {
				before.End = t.start
				out = append(out, before)
			}
			if after := m; m.End > t.end {
				after.Start, after.Offset = t.end, m.Offset+(t.end-m.Start)
				out = append(out, after)
			}
		}
		ms = out
	}
	return ms
}

// same reports whether a process is the one that is watched, or shares its memory.
func (c *calls) same(pid int) bool {
	return c.history.shares(c.watch.pid, pid)
}

// maxReads is how often a process is read that changes meanwhile.
const maxReads = 4

// Refresh reads the executable mappings and the threads of all processes, at the
// start and after a loss. When it returns, the history is right again from then on.
// The Reader must have Stat, IDs and the filter procmap.Exec. It is kept, for build
// IDs that the kernel does not report, and is for the goroutine of the Band.
//
// Nothing falls between a reading and the records: records that came while a
// process was read are drained right after it. If they change that process, it is
// read again, and if it never stops changing, the records have precedence over the
// reading.
//
// Where processes change memory faster than the records can be taken, more are lost
// meanwhile. Then Refresh ends early: the doubt lasts, whatever else it reads.
func (b *Band) Refresh(r *procmap.Reader) (procmap.Counts, error) {
	b.completer.reader = r
	met := make(map[int]bool)
	breaks, unseen := b.breaks, b.unseen
	began := b.beginRefresh(time.Now())
	t := b.Now()
	counts, err := r.Walk(nil, func(p *procmap.Process, err error) error {
		if began.futile(b, time.Now()) {
			return errFutile
		}
		switch {
		case err == nil:
			err = b.take(r, p, t, b.History.Gaps.from())
		case errors.Is(err, fs.ErrPermission):
			b.takeThreads(r, p.PID, t)
		}
		// A process that we may not read is there all the same.
		met[p.PID] = !errors.Is(err, procmap.ErrGone) && !errors.Is(err, procmap.ErrNoMemory)
		t = b.Now()
		return nil
	})
	switch {
	case err == errFutile:
		return counts, b.History.log.flush()
	case err != nil:
		return counts, fmt.Errorf("refreshing the address spaces: %w", err)
	}
	b.readUnmet(r, met, &began)
	newSettler(b, r).settleAll()
	b.drain()
	b.checkSharers(r)
	b.findSharers(r)
	if b.breaks == breaks {
		b.History.sure(b.found.Until)
	}
	if b.unseen == unseen && !b.blind {
		b.History.whole(b.found.Until)
	}
	b.History.log.until(b.found.Until)
	return counts, b.History.log.flush()
}

// refreshing is a Refresh under way: the losses when it began, and whether all
// mappings were in doubt.
type refreshing struct {
	began          time.Time
	breaks, unseen int
	doubt          bool
}

func (b *Band) beginRefresh(now time.Time) refreshing {
	return refreshing{now, b.breaks, b.unseen, b.History.Gaps.Open()}
}

// patience is how long a Refresh that can end no doubt continues: its readings are of
// use all the same.
const patience = time.Second

// errFutile is the early end of a Refresh.
var errFutile = errors.New("records are lost faster than processes are read")

// futile reports whether a Refresh can end no doubt any more, and has run for long.
func (r *refreshing) futile(b *Band, now time.Time) bool {
	ends := b.breaks == r.breaks && (r.doubt || b.unseen == r.unseen)
	return !ends && now.Sub(r.began) >= cmp.Or(b.opt.patience, patience)
}

// readUnmet reads the processes that are known to run and were not met on the
// walk: they came after it began, or have gone and the record of that is lost.
func (b *Band) readUnmet(r *procmap.Reader, met map[int]bool, began *refreshing) {
	for _, pid := range b.History.Threads.processes() {
		if !met[pid] && !began.futile(b, time.Now()) {
			_ = b.readAgain(r, pid, b.History.Gaps.from()) // it may have ended again: then that is known
		}
	}
}

// Read reads one process again: when an address is in no mapping that is known,
// or in memory whose name is not. A process that has ended is noted as such.
// The history of times before after does not change: it has been used. A thread
// that is not known is taken for its process. A process that was read while it could be
// in a call that was not recorded is not read, ErrUnderWay: Drain does once it is not.
func (b *Band) Read(r *procmap.Reader, pid int, after tracefs.Time) error {
	if len(b.underWay.open) > 0 && newSettler(b, r).open(pid) {
		return ErrUnderWay
	}
	return b.readAgain(r, pid, after)
}

// ErrUnderWay means that a process can be in a call that was not recorded, and that
// changes its mappings.
var ErrUnderWay = errors.New("a call that was not recorded may be changing its mappings")

// readAgain is Read, whatever the process does.
func (b *Band) readAgain(r *procmap.Reader, pid int, after tracefs.Time) error {
	if b.History.Threads.Live(pid) == 0 {
		owner, err := r.ThreadGroup(pid)
		if err != nil {
			return err
		}
		pid = owner
	}
	t := b.Now()
	err := r.Process(pid, &b.scratch)
	if err == nil {
		return b.take(r, &b.scratch, t, after)
	}
	if errors.Is(err, procmap.ErrGone) {
		b.watch = watch{pid: pid, since: t}
		b.drain()
		if !b.watch.changed && b.History.Threads.Live(pid) > 0 {
			b.History.gone(pid, t) // the record of that is lost
		}
	}
	return err
}

// Found notes the mapping that a reading of a process at t has found at an address:
// memory that is not code, which the side band does not report. For after, see
// Read.
func (b *Band) Found(pid int, m *procmap.Mapping, t, after tracefs.Time) {
	b.History.found(pid, m, t, after)
}

// takeThreads notes the threads of a process whose mappings we may not read.
func (b *Band) takeThreads(r *procmap.Reader, pid int, t tracefs.Time) {
	threads, err := r.Threads(pid)
	if err != nil {
		return
	}
	b.drain()
	for _, tid := range threads {
		b.History.seen(pid, tid, t)
	}
}

// take notes a reading that began at t, once the process no longer changes meanwhile,
// nor is in a call that unmaps what was found.
func (b *Band) take(r *procmap.Reader, p *procmap.Process, t, after tracefs.Time) error {
	for reads := 1; ; reads++ {
		threads, err := r.Threads(p.PID)
		switch {
		case err != nil:
			threads = nil // it has just ended
		case p.Stat.Ended(): // the first one, which is listed until the last one ends
			threads = slices.DeleteFunc(threads, func(tid int) bool { return tid == p.PID })
		}
		b.watch = watch{pid: p.PID, since: t}
		b.drain()
		if b.another(p, t) {
			b.History.succeeded(p.PID, t)
			if b.watch.changed && reads == maxReads {
				return nil // what it has done since t went with the former one
			}
		}
		changed := b.watch.changed || b.watch.overtaken(p.Mappings)
		flying := b.calls.flights.flying(b.History, p.PID, p.Mappings, b.drained)
		switch newSettler(b, r).settle(p.PID) {
		case settledNow:
			changed = true
		case unsettled:
			flying, reads = []taken{everything}, maxReads
		}
		if b.watch.lost && reads == maxReads {
			return nil // what it has now is known from what it does, as far as it is
		}
		if !changed && len(flying) == 0 || reads == maxReads {
			if changed || len(flying) > 0 {
				b.watch.taken = append(b.watch.taken, flying...)
				p.Mappings = b.watch.left(p.Mappings)
			}
			for i := range p.Mappings {
				b.files.unsure(&p.Mappings[i])
			}
			b.History.read(p, threads, changed, t, after)
			if b.rings.raw && inHeap(p.Mappings) {
				b.History.compat(p.PID, t)
			}
			for i := range p.Mappings {
				b.files.watchAgain(p.PID, &p.Mappings[i], t)
			}
			for _, c := range flying {
				b.History.unknown(p.PID, c.start, c.end, b.drained)
			}
			return nil
		}
		t = b.Now()
		if err := r.Process(p.PID, &b.scratch); err != nil {
			return err
		}
		p = &b.scratch
	}
}
