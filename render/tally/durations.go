// Package tally adds up durations for reports.
package tally

import (
	"math/bits"
	"slices"

	"ustack/tracefs"
)

// Durations keeps the distribution of durations: each of them up to exactly,
// then in classes whose bounds are less than 7 % apart.
type Durations struct {
	Count  int64
	Sum    tracefs.Time
	Max    tracefs.Time
	exact  []tracefs.Time
	octave *octaves // nil while all are in exact
}

// octaves are the classes, by octave and part of it.
type octaves [65]*[perOctave]uint32

const (
	exactly   = 128
	perOctave = 16
)

// Add counts a duration.
func (d *Durations) Add(t tracefs.Time) {
	t = max(t, 0)
	d.Count++
	d.Sum += t
	d.Max = max(d.Max, t)
	if d.exact != nil || d.Count == 1 {
		if len(d.exact) < exactly {
			d.exact = append(d.exact, t)
			return
		}
		d.spill()
	}
	d.put(t, 1)
}

func (d *Durations) spill() {
	for _, t := range d.exact {
		d.put(t, 1)
	}
	d.exact = nil
}

// class returns the octave of a duration and the part of it: octave o holds
// durations of o bits.
func class(t tracefs.Time) (o, part int) {
	o = bits.Len64(uint64(t))
	const partBits = 4
	if o <= partBits {
		return o, int(t) & (perOctave - 1)
	}
	return o, int(t>>(o-1-partBits)) & (perOctave - 1)
}

// bound returns the largest duration of a class.
func bound(o, part int) tracefs.Time {
	const partBits = 4
	if o <= partBits {
		return tracefs.Time(part)
	}
	return tracefs.Time(1)<<(o-1) + tracefs.Time(part+1)<<(o-1-partBits) - 1
}

func (d *Durations) put(t tracefs.Time, n uint32) {
	o, part := class(t)
	d.parts(o)[part] += n
}

// parts returns the classes of an octave, made if need be.
func (d *Durations) parts(o int) *[perOctave]uint32 {
	if d.octave == nil {
		d.octave = new(octaves)
	}
	if d.octave[o] == nil {
		d.octave[o] = new([perOctave]uint32)
	}
	return d.octave[o]
}

// all returns the classes by octave.
func (d *Durations) all() []*[perOctave]uint32 {
	if d.octave == nil {
		return nil
	}
	return d.octave[:]
}

// Merge adds the durations of e, which stays as it is.
func (d *Durations) Merge(e *Durations) {
	if e.Count == 0 {
		return
	}
	if e.exact != nil && (d.exact != nil || d.Count == 0) && len(d.exact)+len(e.exact) <= exactly {
		d.exact = append(d.exact, e.exact...)
		d.Count += e.Count
		d.Sum += e.Sum
		d.Max = max(d.Max, e.Max)
		return
	}
	if d.exact != nil {
		d.spill()
	}
	for _, t := range e.exact {
		d.put(t, 1)
	}
	for o, parts := range e.all() {
		if parts == nil {
			continue
		}
		own := d.parts(o)
		for i, n := range parts {
			own[i] += n
		}
	}
	d.Count += e.Count
	d.Sum += e.Sum
	d.Max = max(d.Max, e.Max)
}

// Quantile returns the duration that a part q of all does not exceed.
func (d *Durations) Quantile(q float64) tracefs.Time {
	if d.Count == 0 {
		return 0
	}
	rank := int64(q*float64(d.Count)+0.9999999) - 1
	rank = min(max(rank, 0), d.Count-1)
	if d.exact != nil {
		sorted := slices.Clone(d.exact)
		slices.Sort(sorted)
		return sorted[rank]
	}
	for o, parts := range d.all() {
		if parts == nil {
			continue
		}
		for part, n := range parts {
			if rank -= int64(n); rank < 0 {
				return min(bound(o, part), d.Max)
			}
		}
	}
	return d.Max
}

// Bucket is a class of the histogram: Count durations of at least From and
// less than twice that (of 0 and 1, for From 0).
type Bucket struct {
	From  tracefs.Time
	Count int64
}

// Histogram counts by powers of two.
func (d *Durations) Histogram() []Bucket {
	var n [65]int64
	for _, t := range d.exact {
		n[bits.Len64(uint64(t))]++
	}
	for o, parts := range d.all() {
		if parts != nil {
			for _, c := range parts {
				n[o] += int64(c)
			}
		}
	}
	n[1], n[0] = 0, n[0]+n[1]
	var out []Bucket
	for o, c := range n {
		if c > 0 {
			from := tracefs.Time(0)
			if o > 1 {
				from = 1 << (o - 1)
			}
			out = append(out, Bucket{from, c})
		}
	}
	return out
}

// Room gives it memory for its first durations, if it has none.
func (d *Durations) Room(list []tracefs.Time) {
	if d.Count == 0 {
		d.exact = list[:0]
	}
}

// AddMany counts n durations that are the same.
func (d *Durations) AddMany(t tracefs.Time, n int64) {
	t = max(t, 0)
	if n <= 0 {
		return
	}
	if d.exact != nil {
		d.spill()
	}
	d.Count = Plus(d.Count, n)
	d.Sum = Plus(d.Sum, times(t, n))
	d.Max = max(d.Max, t)
	const most = 1<<32 - 1
	class, part := class(t)
	to := &d.parts(class)[part]
	*to = uint32(min(int64(*to)+n, most))
}

// times returns t n times, or the largest time there is. Neither is negative.
func times(t tracefs.Time, n int64) tracefs.Time {
	if high, low := bits.Mul64(uint64(t), uint64(n)); high == 0 && low < 1<<63 {
		return tracefs.Time(low)
	}
	return 1<<63 - 1
}
