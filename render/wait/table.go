package wait

import (
	"ustack/render/stackset"
	"ustack/render/tally"
	"ustack/tracefs"
)

// Sum is the time of many waits.
type Sum struct {
	// Waits have ended and lasted for Time: until the thread was woken, or until it ran,
	// for Unsplit of them.
	Waits   int64
	Time    tracefs.Time
	Unsplit int64
	// Ready is how long threads were runnable after that, as far as the trace shows it.
	Ready tracefs.Time
	// Open had not ended, and lasted for OpenTime until the end of the trace.
	Open     int64
	OpenTime tracefs.Time
}

// All returns the time of waits that have ended or not.
func (s *Sum) All() tracefs.Time { return s.Time + s.OpenTime }

// Count returns how many there are, ended or not.
func (s *Sum) Count() int64 { return s.Waits + s.Open }

func (s *Sum) add(o *Sum) {
	s.Waits += o.Waits
	s.Time += o.Time
	s.Unsplit += o.Unsplit
	s.Ready += o.Ready
	s.Open += o.Open
	s.OpenTime += o.OpenTime
}

// Doubt is waits whose end is uncertain: they took AtMost in all.
type Doubt struct {
	Waits  int64
	AtMost tracefs.Time
}

func (d *Doubt) add(t tracefs.Time) {
	d.Waits++
	d.AtMost += t
}

// cellKey is what waits have in common that are one cell.
type cellKey struct {
	id    callID
	state byte
	doubt bool // its time is an upper bound
	stack int32
	tid   int32
	waker waker
}

// siteKey is a call and a stack.
type siteKey struct {
	id    callID
	stack int32
}

// site has the distribution of the waits of one place.
type site struct {
	durations tally.Durations
	longest   off
}

// table adds up waits.
//
// Invariants:
//   - No more than most cells have a thread; the others are sums of what had no room.
//   - There are no more than maxSites sites.
type table struct {
	cells map[cellKey]*Sum
	most  int
	sites map[siteKey]*site
}

// maxSites bounds the places whose waits have a distribution.
const maxSites = 4096

func newTable(most int) table {
	return table{cells: make(map[cellKey]*Sum), most: most, sites: make(map[siteKey]*site)}
}

// add adds to a cell. If there are too many, threads, wakers and stacks are not kept
// apart.
func (t *table) add(k cellKey, s *Sum) {
	c := t.cells[k]
	if c == nil && len(t.cells) >= t.most {
		k = cellKey{id: k.id, state: k.state, doubt: k.doubt, stack: stackset.Other, waker: waker{unknownWaker, stackset.Other}}
		c = t.cells[k]
	}
	if c == nil {
		c = new(Sum)
		t.cells[k] = c
	}
	c.add(s)
}

// duration notes how long a wait was.
func (t *table) duration(w *off, k cellKey, d tracefs.Time) {
	key := siteKey{k.id, k.stack}
	s := t.sites[key]
	if s == nil {
		if len(t.sites) >= maxSites {
			return
		}
		s = new(site)
		t.sites[key] = s
	}
	if d > s.durations.Max || s.durations.Count == 0 {
		s.longest = *w
	}
	s.durations.Add(d)
}
