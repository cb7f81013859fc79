package diff

import (
	"maps"
	"math"
	"slices"
)

// side is what one report has of some waits. Times are in nanoseconds, or ticks.
type side struct {
	time    float64 // of waits that ended, and of those that had not
	waits   float64
	futexes int
	// low and hidden bound the time if records were lost: it is from low to time + hidden.
	low, hidden float64
	slices      [maxSlices]struct{ waits, time float64 }
	// squares is the sum of the squares of the times of all waits; shared is the variance
	// that comes from how the waits of a row were divided among its places.
	squares, shared float64
	histogram       map[int64]float64
	p99             float64 // exact, if it is of one whole row
	rows            int
	kinds           map[string]float64 // time by kind
	holders         map[string]float64 // time by names of threads that held it
	places          map[string]float64 // time by where threads wait

	names map[string]float64 // time by names of variables, "" for none

	callers []string // of the place that they have in common
	lines   bool
}

// used reports whether there is any wait.
func (s *side) used() bool { return s.waits > 0 || s.time > 0 }

// sideOf returns what a row has.
func sideOf(r *row, d *document) side {
	s := side{
		time: float64(r.Total) + float64(r.Open), waits: float64(r.Waits), futexes: max(int(r.Futexes), 1), p99: float64(r.P99), rows: 1,
		histogram: make(map[int64]float64), kinds: make(map[string]float64), holders: make(map[string]float64), places: make(map[string]float64), names: make(map[string]float64),
	}
	s.low = s.time
	if low, high := r.Bounds.Low, r.Bounds.High; low != nil && high != nil {
		s.low = min(max(float64(*low), 0), s.time)
		s.hidden = max(float64(*high)-s.time, 0)
	}
	for _, b := range r.Histogram {
		s.histogram[b.From] += float64(b.Count)
		middle := max(float64(b.From)*math.Sqrt2, 1)
		s.squares += middle * middle * float64(b.Count)
	}
	for _, x := range r.Slices {
		s.slices[x.At].waits += float64(x.Waits)
		s.slices[x.At].time += float64(x.Time)
	}
	if r.Open > 0 {
		last := &s.slices[d.lastSlice()]
		last.time += float64(r.Open)
		last.waits += float64(r.OpenWaits)
		s.squares += float64(r.Open) * float64(r.Open) / float64(max(r.OpenWaits, 1))
	}
	s.kinds[r.Kind], s.names[r.variable()] = s.time+1, s.time+1
	for _, h := range r.Holders {
		s.holders[numbered(h.Comm)] += float64(h.Time)
	}
	return s
}

// lastSlice returns the place of the slice in which the trace ends.
func (d *document) lastSlice() int64 {
	if d.SliceTime == 0 {
		return 0
	}
	return (d.length() - 1) / d.SliceTime
}

// place notes where threads waited for some time.
func (s *side) place(name string, t float64) { s.places[name] += t }

// add adds a share of other waits, which have been divided at random as far as is known.
func (s *side) add(t *side, share float64) {
	if s.histogram == nil {
		s.histogram = make(map[int64]float64)
		s.kinds, s.holders, s.places, s.names = make(map[string]float64), make(map[string]float64), make(map[string]float64), make(map[string]float64)
		s.callers, s.lines = t.callers, t.lines
	}
	if slices.Compare(t.callers, s.callers) < 0 {
		s.callers = t.callers
	}
	s.lines = s.lines && t.lines
	s.time += share * t.time
	s.waits += share * t.waits
	s.futexes += t.futexes
	s.low += max(share*t.time-(t.time-t.low), 0)
	s.hidden += t.hidden
	for i := range t.slices {
		s.slices[i].waits += share * t.slices[i].waits
		s.slices[i].time += share * t.slices[i].time
	}
	s.shared += share*share*t.shared + share*(1-share)*t.squares
	s.squares += share * t.squares
	for from, n := range t.histogram {
		s.histogram[from] += share * n
	}
	if s.rows += t.rows; share == 1 && s.rows == 1 {
		s.p99 = t.p99
	} else if share < 1 || s.rows > 1 {
		s.p99 = 0
	}
	addShare(s.kinds, t.kinds, share)
	addShare(s.holders, t.holders, share)
	addShare(s.places, t.places, share)
	addShare(s.names, t.names, share)
}

func addShare(to, from map[string]float64, share float64) {
	for k, v := range from {
		to[k] += share * v
	}
}

// most returns the name with the most time, and its part of all, "" if there is none.
func most(m map[string]float64) (name string, part float64) {
	sum := 0.0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if sum += m[k]; name == "" || m[k] > m[name] {
			name = k
		}
	}
	if sum == 0 {
		return name, 0
	}
	return name, m[name] / sum
}
