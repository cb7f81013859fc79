package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"ustack/cmd/ustack/internal/fleet"
)

// first returns the locks with most of something, as many as are wanted, with their functions.
func (a *answers) first(of func(*lockSum) float64) ([]*lockSum, error) {
	var list []*lockSum
	for _, l := range a.locks {
		slices.Sort(l.times)
		if l.lengths = a.lengths[l.key]; a.f.Sums && a.f.Question == fleet.Top && l.waits != countOf(l.lengths) {
			return nil, fmt.Errorf("%d waits and %d durations of a lock: %w", l.waits, countOf(l.lengths), errForged)
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(x, y *lockSum) int { return cmp.Or(cmp.Compare(of(y), of(x)), cmp.Compare(x.key, y.key)) })
	list = list[:min(len(list), a.f.Top)]
	return list, nameSites(a.f.Dir, list)
}

// p99 returns that of a lock, as durations have it, if it is not to be exact.
func (a *answers) p99(l *lockSum) int64 {
	if a.f.Exact {
		return l.p99()
	}
	return atMost(l.p99())
}

// wholeNS returns a total as a whole number.
func wholeNS(total float64) int64 { return int64(math.Round(min(total, fleet.MostNS))) }

// top answers which locks cost most.
func (a *answers) top() (columns []string, rows [][]any, err error) {
	columns = columnsOfAnswer(fleet.Top)
	if a.f.Question != fleet.Top {
		return columns, nil, nil
	}
	of := map[fleet.Order]func(*lockSum) float64{
		fleet.ByTotal:   func(l *lockSum) float64 { return float64(wholeNS(l.total[0])) },
		fleet.ByDevices: func(l *lockSum) float64 { return float64(l.devices[0].count()) },
		fleet.ByP99:     func(l *lockSum) float64 { return float64(a.p99(l)) },
		fleet.ByWaits:   func(l *lockSum) float64 { return float64(l.waits) },
	}[a.f.By]
	list, err := a.first(of)
	for _, l := range list {
		const percent, tenths = 100, 10
		share := math.Round(percent*tenths*float64(l.devices[0].count())/float64(len(a.known))) / tenths
		rows = append(rows, append([]any{wholeNS(l.total[0]), l.waits, l.devices[0].count(), share, a.p99(l)}, l.where()...))
	}
	return columns, rows, err
}

// devices answers which devices there are.
func (a *answers) devices() (columns []string, rows [][]any) {
	columns = columnsOfAnswer(fleet.Devices)
	var list []*deviceSum
	for _, d := range a.known {
		list = append(list, d)
	}
	slices.SortFunc(list, func(x, y *deviceSum) int {
		return cmp.Or(cmp.Compare(y.waited.whole(), x.waited.whole()), cmp.Compare(x.device, y.device))
	})
	for _, d := range list {
		rows = append(rows, []any{d.device, d.os, d.kernel, d.reports, d.duplicates, d.events, d.lost.whole(), d.waits, d.waited.whole()})
	}
	return columns, rows
}

// diff answers what is waited for more in one operating system than in another, for each
// device of these.
func (a *answers) diff() (columns []string, rows [][]any, err error) {
	columns = columnsOfAnswer(fleet.Diff)
	var n [2]float64
	for _, side := range []struct {
		os    string
		count *float64
	}{{a.f.A, &n[0]}, {a.f.B, &n[1]}} {
		if *side.count = float64(len(a.of[side.os])); *side.count == 0 {
			err = errors.Join(err, noSystem(side.os))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	each := func(l *lockSum, side int) int64 { return wholeNS(l.total[side] / n[side]) }
	list, err := a.first(func(l *lockSum) float64 { return float64(each(l, 1) - each(l, 0)) })
	for _, l := range list {
		rows = append(rows, append([]any{each(l, 0), each(l, 1), l.devices[0].count(), l.devices[1].count()}, l.where()...))
	}
	return columns, rows, err
}
