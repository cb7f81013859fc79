package futex_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// tick is the tick of a time.
func tick(t tracefs.Time) int { return int(t/1000) - 1000 }

// follows reports whether a hand-over goes from the thread that the one before went to, to one
// that had waited then already.
func (p *pass) follows(before *pass) bool {
	return before.to != nil && p.to != nil && p.by == before.to && p.entered < before.called
}

// checkConvoys compares the longest convoy of a lock with what threads did, and the number of
// hand-overs in all of them. It returns that number, and how many there are in truth.
func (m *machine) checkConvoys(row *futex.Lock) (got, all int64, err error) {
	l := m.locks[(row.Address-0x1000)/0x40]
	slices.SortStableFunc(l.passes, func(x, y pass) int { return x.called - y.called })
	for i := 1; i < len(l.passes); i++ {
		if l.passes[i].follows(&l.passes[i-1]) {
			all++
		}
	}
	c := row.Convoys
	if c == nil {
		return 0, all, nil
	}
	from := slices.IndexFunc(l.passes, func(p pass) bool { return p.called == tick(c.Longest.From) })
	to := slices.IndexFunc(l.passes, func(p pass) bool { return p.called == tick(c.Longest.To) })
	if from < 0 || int64(to-from) != c.Longest.HandOvers || c.HandOvers > all || c.HandOvers < 16*c.Count {
		return 0, 0, fmt.Errorf("from hand-over %d to %d of %d: %+v", from, to, all, c)
	}
	got, held := c.HandOvers, 0
	times := make(map[*worker]int)
	for i := from + 1; i <= to; i++ {
		if !l.passes[i].follows(&l.passes[i-1]) {
			return 0, 0, fmt.Errorf("hand-over %d does not follow: %+v", i, c)
		}
		times[l.passes[i].to]++
	}
	again := 0
	for _, n := range times {
		if n > 1 {
			again++
		}
	}
	for at := tick(c.Longest.From); at < tick(c.Longest.To); at++ {
		if l.owners[at] != nil {
			held++
		}
	}
	if 2*again <= len(times) || len(times) != c.Longest.Threads || c.Count == 1 && held > 500*int(c.HandOvers) {
		return 0, 0, fmt.Errorf("%d of %d threads come again, held for %d: %+v", again, len(times), held, c)
	}
	if c.Held < 0 || c.HandOver < 0 || c.Time < c.Longest.To-c.Longest.From || c.Waits > row.Time {
		return 0, 0, fmt.Errorf("%+v of %+v", c, row.Sum)
	}
	return got, all, nil
}

// convoyMachine makes a program whose threads queue at few locks.
func convoyMachine(seed uint64) *machine {
	m := newMachine(seed, 1+int(seed%3), 4+int(seed%5), 1+int(seed%2))
	m.fair, m.short, m.late = seed%3 > 0, seed%4 > 0, seed%2 == 0
	return m
}

// TestConvoysGenerated: for programs whose every step is known, each hand-over of a convoy is
// one, and follows the one before.
func TestConvoysGenerated(t *testing.T) {
	var got, all, found int64
	for seed := range chainCount(t, 200) {
		m := convoyMachine(seed)
		for _, l := range analyseText(t, futex.Options{}, m.run(6000)).Report(futex.View{}).Locks {
			n, truth, err := m.checkConvoys(l)
			if err != nil {
				t.Fatalf("seed %d, %#x: %v", seed, l.Address, err)
			}
			got, all = got+n, all+truth
			if n > 0 {
				found++
			}
		}
	}
	t.Logf("%d locks with convoys, of %d hand-overs in %d that follow another one", found, got, all)
	if found < 5 {
		t.Errorf("%d convoys", found)
	}
}

// TestConvoysLost: records that are lost end convoys, and make none.
func TestConvoysLost(t *testing.T) {
	var got, all int64
	for round := range chainCount(t, 300) {
		m := convoyMachine(round)
		text := m.run(4000)
		r := analyseText(t, futex.Options{}, damage(textRecords(t, text), rand.New(rand.NewPCG(round, 11)))).Report(futex.View{})
		for _, l := range r.Locks {
			n, truth, err := m.checkConvoys(l)
			if err != nil {
				t.Fatalf("round %d, %#x: %v", round, l.Address, err)
			}
			got, all = got+n, all+truth
		}
	}
	t.Logf("convoys of %d hand-overs in %d that follow another one", got, all)
	if got == 0 {
		t.Error("no convoys")
	}
}
