package futex

import (
	"math/bits"
	"slices"

	"ustack/tracefs"
)

// durations keeps the distribution of durations: each of them up to exactly,
// then in classes whose bounds are less than 7 % apart.
type durations struct {
	count  int64
	sum    tracefs.Time
	max    tracefs.Time
	exact  []tracefs.Time
	octave *octaves // nil while all are in exact
}

// octaves are the classes, by octave and part of it.
type octaves [65]*[perOctave]uint32

const (
	exactly   = 128
	perOctave = 16
)

// add counts a duration.
func (d *durations) add(t tracefs.Time) {
	t = max(t, 0)
	d.count++
	d.sum += t
	d.max = max(d.max, t)
	if d.exact != nil || d.count == 1 {
		if len(d.exact) < exactly {
			d.exact = append(d.exact, t)
			return
		}
		d.spill()
	}
	d.put(t, 1)
}

func (d *durations) spill() {
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

func (d *durations) put(t tracefs.Time, n uint32) {
	o, part := class(t)
	d.parts(o)[part] += n
}

// parts returns the classes of an octave, made if need be.
func (d *durations) parts(o int) *[perOctave]uint32 {
	if d.octave == nil {
		d.octave = new(octaves)
	}
	if d.octave[o] == nil {
		d.octave[o] = new([perOctave]uint32)
	}
	return d.octave[o]
}

// all returns the classes by octave.
func (d *durations) all() []*[perOctave]uint32 {
	if d.octave == nil {
		return nil
	}
	return d.octave[:]
}

func (d *durations) merge(e *durations) {
	if e.count == 0 {
		return
	}
	if e.exact != nil && (d.exact != nil || d.count == 0) && len(d.exact)+len(e.exact) <= exactly {
		d.exact = append(d.exact, e.exact...)
		d.count += e.count
		d.sum += e.sum
		d.max = max(d.max, e.max)
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
	d.count += e.count
	d.sum += e.sum
	d.max = max(d.max, e.max)
}

// quantile returns the duration that a part q of all does not exceed.
func (d *durations) quantile(q float64) tracefs.Time {
	if d.count == 0 {
		return 0
	}
	rank := int64(q*float64(d.count)+0.9999999) - 1
	rank = min(max(rank, 0), d.count-1)
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
				return min(bound(o, part), d.max)
			}
		}
	}
	return d.max
}

// Bucket is a class of the histogram: Count durations of at least From and
// less than twice that (of 0 and 1, for From 0).
type Bucket struct {
	From  tracefs.Time
	Count int64
}

// histogram counts by powers of two.
func (d *durations) histogram() []Bucket {
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
