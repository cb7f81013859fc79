//go:build !device

package report

import (
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// sampledLock is where the owners of a lock computed, by samples: the row of the lock in the
// table, how many samples there are, and the places, each a count and a name, the most first.
type sampledLock struct {
	Lock    int64 `json:"lock"`
	Samples int64 `json:"samples"`
	Places  []row `json:"places"`
}

// sampledHold is the same of one hold. From and To are when it surely lasted, Who is the name
// of its thread.
type sampledHold struct {
	sampledLock
	From tracefs.Time `json:"from"`
	To   tracefs.Time `json:"to"`
	Who  int64        `json:"who"`
}

// maxSampledLocks bounds the locks whose samples a page has, the ones that are waited for most.
const maxSampledLocks = 100

// samples adds where owners computed.
func (c *collector) samples() {
	for _, l := range c.r.Locks {
		if len(c.out.Sampled) == maxSampledLocks {
			break
		}
		if l.Holds == nil {
			continue
		}
		if s, ok := c.sampled(l, l.Holds.Samples, l.Holds.Sampled); ok {
			c.out.Sampled = append(c.out.Sampled, s)
		}
	}
	for _, h := range c.r.LongHolds {
		if s, ok := c.sampled(h.Lock, h.Samples, h.Sampled); ok {
			to := h.To - c.r.Start
			c.out.Holds = append(c.out.Holds, sampledHold{s, to - h.Low, to, int64(c.words.name(phrase.Thread(h.TID, h.Comm)))})
		}
	}
}

// sampled returns where samples of a lock are; ok is false if it has no row of its own, or they
// have no place.
func (c *collector) sampled(l *futex.Lock, all int64, list []futex.Sampled) (s sampledLock, ok bool) {
	n := int64(c.table.row(l)) - 1
	places := sampledPlaces(list)
	if n < 0 || c.table.Rows[n].Many || len(places) == 0 {
		return s, false
	}
	s.Lock, s.Samples = n, all
	for i, p := range places[:min(len(places), mostPlaces)] {
		if i == 0 || p.count*100 >= all*leastPlace {
			s.Places = append(s.Places, row{p.count, int64(c.words.name(p.code()))})
		}
	}
	return s, true
}
