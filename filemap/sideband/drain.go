package sideband

import (
	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// Drained is what was found since the last Drain.
type Drained struct {
	// Until is the time of the call: all that happened before is known.
	Until tracefs.Time
	// Records were applied.
	Records int
	// Lost is how many records the kernel had no room for, Malformed how often a
	// ring had bytes that are no record. After either, or when a CPU went online or
	// offline, all is in Doubt from then on: it is time for Refresh.
	Lost      uint64
	Malformed int
	Doubt     bool
	// Came is how many CPUs went online, Left how many went offline.
	Came, Left int
	// Unseen is how many records of the tracepoints were lost. After that, or when
	// Malformed, all is Unsure until Refresh.
	Unseen uint64
	Unsure bool
	// OtherRights are processes that have got other rights by what they executed. The kernel has
	// taken the events of perf from them that were opened for them, or that they had inherited.
	OtherRights []int
}

// maxRights bounds Drained.OtherRights.
const maxRights = 1 << 10

// Drain brings the History up to date: what any process did before the call is
// in it when Drain returns. The error is of writing the log.
//
// A record is in its ring before the recorded change can have an effect: an mmap
// before a thread can run in the mapping, a fork before the child runs. So a
// stack in a trace that was read before the call finds all records that it
// needs. Records from while the rings are read, one after the other, are left
// for the next call, or effects could come before causes.
func (b *Band) Drain() (Drained, error) {
	b.drain()
	b.underWay.settleLater(b)
	nameReader{b}.askNames()
	b.files.checkWritten(b.drained)
	d := b.found
	d.Doubt = b.History.Gaps.Open()
	d.Unsure = !b.blind && b.History.Unsure.Open()
	b.found = Drained{}
	b.History.log.until(d.Until)
	return d, b.History.log.flush()
}

// mostPasses bounds how often the rings are read in a Drain.
const mostPasses = 3

// drain adds to what was found since the last Drain.
func (b *Band) drain() {
	b.read()
	b.followCPUs()
	b.expire(b.found.Until)
}

// read reads the rings. Files are looked at after that, so what was unmapped in between
// takes another pass. If that has new suspects again and again, they are for the next
// Drain, and so is all that is as new.
func (b *Band) read() {
	d := &b.found
	b.completer.mounts.look()
	b.completer.wall.look()
	for n := range mostPasses {
		known := b.drained
		d.Until = b.Now()
		b.collect(d)
		b.apply(d)
		b.drained = d.Until
		answered := b.files.settleAsked(b.drained)
		b.files.proof.check(b.drained, func(f *suspect) bool {
			return !b.History.Gaps.Open() && !b.History.Unsure.Open() && b.files.had(f)
		})
		b.files.findUnheld(b.drained)
		if settled := b.files.settleFresh(b.drained); b.files.settleSuspects(b.drained) && settled && answered {
			break
		}
		if n == mostPasses-1 {
			d.Until, b.drained = known, known
		}
	}
}

// Reached sets the time up to which the History has been looked up. It drops
// processes and mappings that ended long before.
func (b *Band) Reached(t tracefs.Time) { b.reached = max(b.reached, t) }

// expire forgets times that are no longer looked up.
func (b *Band) expire(now tracefs.Time) {
	keep := tracefs.Time(b.opt.Keep)
	const threads = 4 // which take less room
	if b.History.Spaces.Len() > b.opt.Most || b.History.Threads.Len() > threads*b.opt.Most {
		b.Reached(now)
	}
	if before := b.reached - keep; before-b.expired > keep/4 {
		b.History.Expire(before)
		b.comms.expire(before, b.History.Threads.known)
		b.expired = before
	}
}

// gap notes that records of a CPU are missing from a time on, n of them, 0 if
// unknown.
func (b *Band) gap(cpu int, n uint64, from, t tracefs.Time) {
	b.found.Lost += n
	b.breaks++
	b.underWay.begin(t)
	b.calls.missed(t)
	b.comms.forget(t)
	b.files.missed()
	b.History.lost(cpu, n, from, t)
}

// collect reads the rings and puts the records in order.
func (b *Band) collect(d *Drained) {
	b.batch.Begin()
	b.files.inodes.begin()
	for _, r := range b.rings.list {
		if b.batch.Collect(r.Ring, d.Until, func(l perf.Loss) { b.missed(r, l) }) != nil {
			d.Malformed++
		}
	}
	b.batch.Sort()
}

// missed notes that records of a ring are missing.
func (b *Band) missed(r *ring, l perf.Loss) {
	if r.soft {
		b.softGap(l.CPU, l.Records, l.From, l.To)
		return
	}
	b.files.inodes.lost()
	b.gap(l.CPU, l.Records, l.From, l.To)
}

// apply adds the batch's records from before the call to the history.
func (b *Band) apply(d *Drained) {
	rec := &b.rec
	for t, raw := range b.batch.Until(d.Until) {
		if _, err := layout.Decode(raw, rec); err != nil {
			d.Malformed++
			b.gap(int(rec.CPU), 0, t, t)
			continue
		}
		d.Records++
		b.record(rec)
	}
}

// early reports whether a record of a process is from the time while the rings were
// opened, one CPU after the other. A fork on one CPU may have been followed by an
// exec on another that is not recorded: the process would be taken to have its
// parent's mappings. Refresh reads the result of all this. Calls are not left out:
// they are recorded when they begin, and may have their effect later.
func (b *Band) early(r *perf.Record) bool {
	if r.Time >= b.calls.opened || r.Type == unix.PERF_RECORD_SAMPLE {
		return false
	}
	if r.Type == unix.PERF_RECORD_MMAP || r.Type == unix.PERF_RECORD_MMAP2 {
		b.calls.flights.landed(b.History, r, r.Addr, r.Addr+r.Len)
	}
	if r.Type == unix.PERF_RECORD_FORK && !r.Thread() {
		b.calls.born(r) // whether it shares memory may be reported after
	}
	return true
}

// record adds a record to the history. Processes outside of our PID namespace
// have no number that could be in a trace of ours.
func (b *Band) record(r *perf.Record) {
	if r.PID <= 0 || r.TID <= 0 {
		return
	}
	if r.Beside && !r.Data() {
		b.files.inodes.saw(r)
		return
	}
	b.calls.landings(r)
	b.underWay.saw(r)
	if b.early(r) {
		return
	}
	h := b.History
	switch {
	case r.Type == unix.PERF_RECORD_SAMPLE && r.Raw != nil:
		b.traced(r)
		return
	case r.Type == unix.PERF_RECORD_SAMPLE:
		b.loadGaps.loaded(h, b.completer.reader, r)
		h.loaded(r.PID, r.Time)
		b.files.loaded(r.PID, r.Time)
		return
	case r.Data():
		b.calls.succeeded(r)
		b.calls.ringMapped(r)
		b.calls.dataMapped(r)
		b.loadGaps.maps(r, nil)
		b.calls.flights.landed(b.History, r, r.Addr, r.Addr+r.Len)
		return
	case r.Type == unix.PERF_RECORD_MMAP2:
		b.calls.succeeded(r)
		m := mapping(r, &b.names)
		if m.Kind == procmap.VDSO && ownVDSO(b, r) {
			m.Kind = procmap.Special
		}
		file := recordedFileOf(b, r)
		if m.Kind.HasFile() && m.BuildID.IsZero() {
			b.completer.complete(r.PID, &m, r.Time)
		}
		b.files.unsure(&m)
		heaped(b, r, &m)
		b.loadGaps.maps(r, &m)
		if h.mapped(r.PID, &m, r.Time) {
			b.namings.mapsUnnamed(r, &m)
			b.files.watch(r.PID, &m, file, r.Time)
		}
		b.calls.overFlights(r, r.Addr, r.Addr+r.Len)
		b.underWay.maps(&b.calls, r)
		b.calls.overRings(r)
	case r.Exec():
		comm := b.names.Intern(r.Name)
		b.comms.add(r.TID, called{from: r.Time, comm: comm})
		delete(b.namings.by, r.PID)
		h.exec(r.PID, comm, r.Time)
		b.files.unloaded(r.PID)
		b.calls.began(r.PID)
		if b.rings.reportsLoaded() {
			h.loading(r.PID, r.Time)
			b.loadGaps.begin(r.PID)
		}
	case r.Type == unix.PERF_RECORD_COMM:
		comm := b.names.Intern(r.Name)
		b.comms.add(r.TID, called{from: r.Time, comm: comm})
		if r.PID != r.TID {
			return
		}
		h.comm(r.PID, comm, r.Time)
	case r.Thread():
		_, _ = b.calls.forking.end(r)
		b.comms.forked(r)
		h.thread(r.PID, r.TID, r.Time)
		return
	case r.Type == unix.PERF_RECORD_FORK:
		b.comms.forked(r)
		b.calls.born(r)
		h.fork(max(r.ParentPID, 0), r.PID, r.Time)
		b.calls.copied(r)
		b.calls.inherited(r)
		b.calls.heaps.forked(r.ParentPID, r.PID)
	case r.Type == unix.PERF_RECORD_EXIT:
		b.calls.ended(r)
		if h.executes(r.PID, r.TID) && len(b.found.OtherRights) < maxRights {
			b.found.OtherRights = append(b.found.OtherRights, r.PID)
		}
		if !h.exit(r.PID, r.TID, r.Time) {
			return
		}
		b.calls.gone(r.PID)
		b.loadGaps.end(r.PID)
		b.files.unloaded(r.PID)
	default:
		return
	}
	b.watch.note(r, b.calls.same(r.PID))
}
