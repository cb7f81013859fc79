package main

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Sums of the samples of a report are written beside them: the usual questions have ten or a
// thousand times as many samples as locks. They are made of what is written as samples, and say
// nothing else.

// sumRow is a row of sums: the waits with a time that a report has for a lock. What else it has is
// that of these samples; where they differ, the least.
type sumRow struct {
	Report      uint64  `parquet:"report,dict"`
	Device      string  `parquet:"device,dict"`
	LockKey     uint64  `parquet:"lock_key,dict"`
	IsLock      *bool   `parquet:"is_lock,optional"`
	LockKind    *string `parquet:"lock_kind,optional,dict"`
	LockName    *string `parquet:"lock_name,optional,dict"`
	SitePath    *string `parquet:"site_path,optional,dict"`
	SiteBuildID *string `parquet:"site_build_id,optional,dict"`
	SiteOffset  *int64  `parquet:"site_offset,optional,dict"`
	SiteRan     *bool   `parquet:"site_ran,optional"`
	Waits       int64   `parquet:"waits"`
	NS          int64   `parquet:"ns"` // of all of them
	Weight      float64 `parquet:"weight,dict"`
	// More is set if the report has a row for the same lock before: some of its waits are those for
	// a lock, others are not.
	More bool `parquet:"more"`
}

// durationRow is a row of durations: the waits for a lock, in a part, that took at most some time,
// and longer than that of the row before.
type durationRow struct {
	LockKey  uint64 `parquet:"lock_key,dict"`
	IsLock   *bool  `parquet:"is_lock,optional"`
	AtMostNS int64  `parquet:"at_most_ns"` // see atMost
	Waits    int64  `parquet:"waits"`
}

// durationBits is how many bits of a duration count.
const durationBits = 7

// atMost returns a duration, rounded up to the next of those that have sums: it is more by less than
// one in 64.
func atMost(ns int64) int64 {
	low := max(bits.Len64(uint64(ns))-durationBits, 0)
	return (ns>>low+1)<<low - 1
}

// lockOf is what samples of a report are summed up by.
type lockOf struct {
	key         uint64
	is, isKnown bool
	weight      float64
}

// keyOfLock returns the key of a sample, false if it is not a wait with a time.
func keyOfLock(s *sampleRow) (k lockOf, ok bool) {
	if s.NS == nil || s.LockKey == nil {
		return k, false
	}
	k = lockOf{key: *s.LockKey, weight: s.Weight}
	if s.IsLock != nil {
		k.is, k.isKnown = *s.IsLock, true
	}
	return k, true
}

func compareLocks(a, b lockOf) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(rank(a.isKnown), rank(b.isKnown)), cmp.Compare(rank(a.is), rank(b.is)), cmp.Compare(a.weight, b.weight))
}

// sumsOf returns the sums of the samples of a report, in the order of their locks.
func sumsOf(samples []sampleRow) []sumRow {
	type keyed struct {
		lockOf
		sumRow
	}
	at := make(map[lockOf]*keyed)
	var list []*keyed
	for i := range samples {
		s := &samples[i]
		k, ok := keyOfLock(s)
		if !ok {
			continue
		}
		sum := at[k]
		if sum == nil { // also if the weight is no number, as only forged tables have it
			sum = &keyed{k, *newSum(s)}
			at[k], list = sum, append(list, sum)
		}
		sum.add(s)
	}
	slices.SortFunc(list, func(a, b *keyed) int { return compareLocks(a.lockOf, b.lockOf) })
	rows := make([]sumRow, len(list))
	for i, k := range list {
		rows[i] = k.sumRow
		rows[i].More = i > 0 && list[i-1].key == k.key
	}
	return rows
}

// newSum returns a row of no waits for the lock of one.
func newSum(s *sampleRow) *sumRow {
	return &sumRow{Report: s.Report, Device: s.Device, LockKey: *s.LockKey, IsLock: s.IsLock, Weight: s.Weight}
}

// add adds a wait of the same lock.
func (r *sumRow) add(s *sampleRow) {
	r.Waits++
	r.NS += *s.NS
	least(&r.LockKind, s.LockKind)
	least(&r.LockName, s.LockName)
	if s.LockName == nil { // threads may wait for a lock with a name at several sites
		least(&r.SitePath, s.SitePath)
		least(&r.SiteBuildID, s.SiteBuildID)
		least(&r.SiteOffset, s.SiteOffset)
	}
	if s.SiteRan != nil && (r.SiteRan == nil || *r.SiteRan) {
		r.SiteRan = s.SiteRan
	}
}

// least keeps the least of what is not nil.
func least[T cmp.Ordered](to **T, from *T) {
	if from != nil && (*to == nil || *from < **to) {
		*to = from
	}
}

// newDurations returns none, which are written by a function.
func newDurations(write func([]durationRow) error) *durations {
	return &durations{waits: make(map[durationOf]int64), most: maxDurations, write: write}
}

// durations count the waits of a part by lock and duration.
type durations struct {
	waits map[durationOf]int64
	most  int // of them, before they are written
	write func([]durationRow) error
}

type durationOf struct {
	lock lockOf
	ns   int64
}

// maxDurations bounds the memory of durations: when there are so many, they are written. A part can
// have several rows of the same lock and duration.
const maxDurations = 1 << 19

// add adds the waits of a report.
func (d *durations) add(samples []sampleRow) error {
	for i := range samples {
		k, ok := keyOfLock(&samples[i])
		if !ok {
			continue
		}
		k.weight = 0 // each wait that was recorded is one
		if len(d.waits) >= d.most {
			if err := d.flush(); err != nil {
				return err
			}
		}
		d.waits[durationOf{k, atMost(*samples[i].NS)}]++
	}
	return nil
}

// flush writes what there is, in the order of the locks.
func (d *durations) flush() error {
	keys := make([]durationOf, 0, len(d.waits))
	for k := range d.waits {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b durationOf) int { return cmp.Or(compareLocks(a.lock, b.lock), cmp.Compare(a.ns, b.ns)) })
	rows := make([]durationRow, len(keys))
	for i, k := range keys {
		rows[i] = durationRow{LockKey: k.lock.key, AtMostNS: k.ns, Waits: d.waits[k]}
		if k.lock.isKnown {
			rows[i].IsLock = &k.lock.is
		}
	}
	clear(d.waits)
	if err := d.write(rows); err != nil {
		return fmt.Errorf("writing the durations: %w", err)
	}
	return nil
}
