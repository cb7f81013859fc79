package sums

import (
	"time"

	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// known reports whether what is known of a program is what the process had mapped when a wait ended.
// If it is not, it is read, unless it was a moment ago, or no reading can be of that time.
func (w *walks) known(p *program, wait *bpffutex.Wait) bool {
	if w.is(p, wait) {
		return true
	}
	now := time.Now()
	if w.stopped || wait.Changes == bpffutex.Unsettled || now.Before(p.walked.again) {
		return false
	}
	if now.Sub(p.walked.again) > readAgain {
		p.walked.pause = 0 // it has helped for so long
	}
	pause := min(max(2*p.walked.pause, soonAgain), readAgain)
	w.files.read(wait.TGID, p)
	if w.is(p, wait) {
		p.walked.pause, p.walked.again = 0, now.Add(max(soonAgain, readPart*time.Since(now)))
		return true
	}
	p.walked.pause, p.walked.again = pause, now.Add(pause)
	return false
}

// is reports whether what is known of a program is what was mapped when a wait ended.
func (w *walks) is(p *program, wait *bpffutex.Wait) bool {
	return p.pages > 0 && p.pages == wait.Code && wait.Changes != bpffutex.Unsettled && p.changes == wait.Changes &&
		w.missed.none(min(p.from, wait.To), max(p.to, wait.To))
}

// stop notes that the kernel is about to count no changes any more. Nil has none.
func (w *walks) stop() {
	if w != nil {
		w.stopped = true
	}
}

// missed is when the kernel did not run the programs that note changes: it says nothing of what was
// between then.
type missed struct {
	kernel interface{ Missed() (uint64, error) }
	n      uint64 // so far
	// No program was missed between these times.
	from, to tracefs.Time
}

// none reports whether no program was missed between two times, which are not to come.
func (m *missed) none(from, to tracefs.Time) bool {
	if to > m.to {
		now := space.Monotonic()
		n, err := m.kernel.Missed()
		if err != nil {
			return false
		}
		if n != m.n {
			m.n, m.from = n, space.Monotonic()
		}
		m.to = now
	}
	return from >= m.from && to <= m.to
}
