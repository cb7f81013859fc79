package main

import (
	"cmp"
	"slices"
)

// A report can come again with other bytes, as one that was compressed again, or a part of
// it. So of the reports of one recording, if some of them are of the same time, a wait counts
// in the one with the lowest key: a wait is the same if thread, beginning and length are. The
// statements that fleet prints have the same rule.

// waitKey says which wait of a device it is.
type waitKey struct {
	device   string
	tid      int32
	time, ns int64
}

// keyOf returns the key of a wait, false if it has no time or thread: it is not recognized.
func keyOf(s *sampleRow) (k waitKey, ok bool) {
	if s.TID == nil || s.Time == nil || s.NS == nil {
		return k, false
	}
	return waitKey{s.Device, *s.TID, *s.Time, *s.NS}, true
}

// repeats are waits that several reports have.
type repeats struct {
	spans map[uint64][]span // of each recording
	of    map[uint64]uint64 // the recording of each report
	// several are recordings with reports of the same time.
	several map[uint64]bool
	first   map[waitKey]uint64
}

// span is the time of a report.
type span struct{ from, to int64 }

func newRepeats() *repeats {
	return &repeats{spans: make(map[uint64][]span), of: make(map[uint64]uint64), several: make(map[uint64]bool), first: make(map[waitKey]uint64)}
}

// device takes a report.
func (r *repeats) device(d *deviceRow) {
	r.of[d.Report] = d.Recording
	if d.Begun != nil {
		r.spans[d.Recording] = append(r.spans[d.Recording], span{*d.Begun, *d.Begun + d.Duration})
	}
}

// any reports whether there are recordings with reports of the same time. All reports have
// been taken.
func (r *repeats) any() bool {
	for recording, spans := range r.spans {
		slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
		for i := 1; i < len(spans); i++ { // if any two are of the same time, two neighbors are
			if spans[i].from < spans[i-1].to {
				r.several[recording] = true
			}
		}
	}
	return len(r.several) > 0
}

// isSeveral reports whether a report is of such a recording.
func (r *repeats) isSeveral(report uint64) bool { return r.several[r.of[report]] }

// sample learns which report a wait counts in. All samples are taken before one is asked for.
func (r *repeats) sample(s *sampleRow) error {
	if !r.isSeveral(s.Report) {
		return nil
	}
	if k, ok := keyOf(s); ok {
		if first, ok := r.first[k]; !ok || s.Report < first {
			r.first[k] = s.Report
		}
	}
	return nil
}

// again reports whether a wait counts in another report.
func (r *repeats) again(s *sampleRow) bool {
	if !r.isSeveral(s.Report) {
		return false
	}
	k, ok := keyOf(s)
	return ok && r.first[k] != s.Report
}
