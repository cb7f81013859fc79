package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"ustack/render/perfetto/perfettotest"
	"ustack/tracefs/capturetest"
)

// perfettoLock is what the report and the slices say of a lock.
type perfettoLock struct {
	Waits    int64 `json:"waits"`
	Woken    int64 `json:"woken"`
	Changed  int64 `json:"changed"`
	TimedOut int64 `json:"timed_out"`
	Requeued int64 `json:"requeued"`
	Failed   int64 `json:"failed"`
	NoReturn int64 `json:"no_return"`
	Open     int64 `json:"open"`
	Total    int64 `json:"total_ns"`
}

func (l *perfettoLock) add(m *perfettoLock) {
	l.Waits += m.Waits
	l.Woken += m.Woken
	l.Changed += m.Changed
	l.TimedOut += m.TimedOut
	l.Requeued += m.Requeued
	l.Failed += m.Failed
	l.NoReturn += m.NoReturn
	l.Open += m.Open
	l.Total += m.Total
}

// slice is what a slice adds.
func (l *perfettoLock) slice(s *perfettotest.Slice) {
	if s.Notes["resumed"] == nil {
		l.Waits++
	}
	n := map[string]*int64{"woken": &l.Woken, "changed": &l.Changed, "timed out": &l.TimedOut, "requeued": &l.Requeued,
		"failed": &l.Failed, "no return": &l.NoReturn, "open": &l.Open}[s.Notes["result"].(string)]
	if n != nil && !(n == &l.Changed && s.Notes["resumed"] != nil) { // else it was interrupted
		*n++
	}
	if s.End > 0 && n != &l.Changed && n != &l.Failed {
		l.Total += int64(s.End - s.Begin)
	}
}

// perfettoWait is one of the longest waits.
type perfettoWait struct {
	TID, Waker int64
	From       uint64 `json:"from_ns"`
	Time       uint64 `json:"time_ns"`
}

// TestPerfettoFutex: the slices of all locks are as many, and as long, as the
// report says, and the longest ones are there.
func TestPerfettoFutex(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	var arrows, open, known int
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			type entry struct {
				Address, Kind string
				perfettoLock
			}
			var report struct {
				Locks, Condvars []entry
				Longest         []perfettoWait
				Blocked         []struct{ TID int64 }
			}
			args := append([]string{"-q", "--maps", c.maps}, c.args...)
			command := func(flags ...string) []string { return append(append([]string{"futex"}, flags...), args...) }
			if err := json.Unmarshal([]byte(profileRun(t, command("--json", "--top=0")...)), &report); err != nil {
				t.Fatal(err)
			}
			want, got := make(map[string]*perfettoLock), make(map[string]*perfettoLock)
			sum := func(m map[string]*perfettoLock, key string) *perfettoLock {
				if m[key] == nil {
					m[key] = new(perfettoLock)
				}
				return m[key]
			}
			for _, list := range [][]entry{report.Locks, report.Condvars} {
				for _, l := range list {
					sum(want, l.Kind+" "+l.Address).add(&l.perfettoLock)
				}
			}
			waits := make(map[perfettoWait]bool)
			blocked := 0
			for _, s := range perfettoRun(t, command("--format=perfetto")...).Slices {
				if s.Category == "wake" {
					arrows++
				}
				if s.Category != "wait" {
					continue
				}
				if s.Track.TID != 0 {
					known++
				}
				if s.Notes["result"] == "open" {
					blocked++
				}
				w := perfettoWait{TID: s.Track.TID, From: s.Begin, Time: s.End - s.Begin}
				w.Waker, _ = s.Notes["waker"].(int64)
				if len(s.FlowEnd) != min(int(w.Waker), 1) {
					t.Fatalf("%d arrows to %+v", len(s.FlowEnd), s)
				}
				waits[w] = true
				if lock := s.Notes["lock"]; lock != nil {
					sum(got, fmt.Sprintf("%s %#x", s.Notes["kind"], lock)).slice(s)
				}
			}
			open += blocked
			if blocked != len(report.Blocked) {
				t.Errorf("%d waits have no end, want %d", blocked, len(report.Blocked))
			}
			for key, w := range want {
				if g := sum(got, key); *g != *w {
					t.Errorf("%s is\n%+v, want\n%+v", key, *g, *w)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d locks, want %d", len(got), len(want))
			}
			for _, w := range report.Longest {
				if other := (perfettoWait{From: w.From, Time: w.Time, Waker: w.Waker}); !waits[w] && !waits[other] {
					t.Errorf("%+v is missing", w)
				}
			}
		})
	}
	if !capturetest.Brief() && (arrows < 1000 || open == 0 || known < 1000) {
		t.Errorf("%d arrows, %d open, %d of known processes", arrows, open, known)
	}
}
