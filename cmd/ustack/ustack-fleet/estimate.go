package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"ustack/cmd/ustack/internal/fleet"
	"ustack/render/tally"
)

// estimated is a lock, and what all recordings have waited for it, also those that were left out:
// record --probability.
type estimated struct {
	lockSum
	// sampled is what recordings with a weight above 1 have waited. The reports of one recording
	// count together: most often they are there together, or not.
	sampled map[sampledKey]float64
}

// sampledKey is a recording, or what of it has a weight.
type sampledKey struct {
	recording uint64
	weight    float64
}

// maxSampled bounds the memory: it is how many pairs of lock and recording are kept.
const maxSampled = 4 << 20

// estimates are the locks by key.
type estimates struct {
	locks map[uint64]*estimated
	pairs int
}

// sample adds a wait of a recording of a device.
func (e *estimates) sample(s *sampleRow, device int32, recording uint64) error {
	l := e.locks[*s.LockKey]
	if l == nil {
		l = &estimated{lockSum: lockSum{key: *s.LockKey}, sampled: make(map[sampledKey]float64)}
		e.locks[l.key] = l
	}
	row := newSum(s)
	row.add(s)
	l.add(row, device, 0)
	if s.Weight == 1 {
		return nil
	}
	k := sampledKey{recording, s.Weight}
	if _, ok := l.sampled[k]; !ok {
		if e.pairs++; e.pairs > maxSampled {
			return fmt.Errorf("more than %d pairs of lock and recording: ask about the reports of fewer devices", maxSampled)
		}
	}
	l.sampled[k] += float64(*s.NS)
	return nil
}

// total returns the estimate of all waiting.
func (l *estimated) total() *tally.Weighted {
	w, sampled := new(tally.Weighted), 0.0
	keys := make([]sampledKey, 0, len(l.sampled))
	for k := range l.sampled {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b sampledKey) int {
		return cmp.Or(cmp.Compare(a.recording, b.recording), cmp.Compare(a.weight, b.weight))
	})
	for _, k := range keys { // in an order: sums of floating point numbers depend on it
		w.Add(k.weight, l.sampled[k])
		sampled += k.weight * l.sampled[k]
	}
	w.Add(1, max(0, l.lockSum.total[0]-sampled))
	return w
}

// estimate answers which locks cost most, with the bounds of what they cost.
func (a *answers) estimate() (columns []string, rows [][]any, err error) {
	columns = []string{"total_ns", "low_ns", "high_ns", "waits", "devices", "kind", "lock", "file", "build_id", "offset", "function"}
	for key, l := range a.estimated.locks {
		a.locks[key] = &l.lockSum
	}
	list, err := a.first(func(l *lockSum) float64 { return float64(wholeNS(l.total[0])) })
	for _, l := range list {
		w := a.estimated.locks[l.key].total()
		low, high := w.Bounds()
		row := []any{wholeNS(w.Total), wholeNS(math.Floor(low)), nil, l.waits, l.devices[0].count()}
		if high <= fleet.MostNS {
			row[2] = int64(math.Ceil(high))
		}
		rows = append(rows, append(row, l.where()...))
	}
	return columns, rows, err
}
