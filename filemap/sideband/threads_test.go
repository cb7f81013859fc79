package sideband

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ustack/filemap/space"
	"ustack/tracefs"
)

func TestThreadTable(t *testing.T) {
	th := newThreads()
	check := func(tid int, at tracefs.Time, pid int, late, ok bool) {
		t.Helper()
		if p, l, o := th.PID(tid, at); p != pid || l != late || o != ok {
			t.Errorf("thread %d at %d is of %d, late %v, %v; want %d, %v, %v", tid, at, p, l, o, pid, late, ok)
		}
	}
	th.seen(100, 100, 50)
	th.seen(100, 101, 50)
	th.started(100, 102, 60)
	check(101, 40, 100, true, true) // it may have been there before
	check(101, 50, 100, false, true)
	check(102, 59, 0, false, false)
	check(102, 60, 100, false, true)
	if th.seen(100, 102, 70) || th.seen(100, 102, 55) {
		t.Error("a known thread is news")
	}
	if th.ended(100, 102, 80) || th.seen(100, 102, 81) {
		t.Error("a thread that has just ended is news, or the last one")
	}
	check(102, 80, 0, false, false)
	check(102, 79, 100, false, true)
	if !th.seen(100, 102, 80+dying+1) {
		t.Error("a thread of the same number is no news")
	}
	// A number goes to another process.
	life := func(tid int, at, born, ended tracefs.Time, ok bool) {
		t.Helper()
		if b, e, o := th.Life(tid, at); o != ok || ok && (b != born || e != ended) {
			t.Errorf("thread %d at %d lived from %d to %d, %v; want %d, %d, %v", tid, at, b, e, o, born, ended, ok)
		}
	}
	life(102, 60, 60, 80, true)
	life(102, 79, 60, 80, true)
	life(102, 59, 0, 0, false)
	life(102, 80, 0, 0, false)
	life(102, 80+dying+1, 0, 0, false) // was only seen
	life(101, 60, 0, 0, false)
	life(100, 60, 0, 0, false)
	th.started(400, 400, 70)
	life(400, 75, 0, 0, false) // may execute a program
	th.ended(400, 400, 76)
	life(999, 75, 0, 0, false)
	th.started(200, 101, 90)
	life(101, 90, 90, space.Forever, true)
	check(101, 89, 100, false, true)
	check(101, 90, 200, false, true)
	if th.Live(100) != 2 || th.Live(200) != 1 {
		t.Errorf("%d and %d live", th.Live(100), th.Live(200))
	}
	// The end of the one before is reported late.
	th.ended(100, 101, 85)
	check(101, 95, 200, false, true)

	if got := fmt.Sprint(th.missing(100, []int{5, 100}, 2*dying)); got != "[102]" {
		t.Errorf("missing are %s", got)
	}
	if got := th.missing(100, []int{100}, 80+dying); len(got) > 0 {
		t.Errorf("missing are %v, which came later", got)
	}
	// A thread that is not the first executes a program.
	th.ended(100, 100, 3*dying)
	th.execed(100, 3*dying+10)
	check(100, 3*dying+5, 0, false, false)
	check(100, 3*dying+10, 100, false, true)
	check(102, 3*dying+10, 0, false, false)
	if th.Live(100) != 1 {
		t.Errorf("%d live", th.Live(100))
	}
	if !th.ended(100, 100, 3*dying+20) || !th.ended(999, 999, 5) {
		t.Error("the last thread was not the last one")
	}
	if th.ended(999, 998, 5) {
		t.Error("an unknown thread was the last one")
	}
	th.execed(300, 10) // of which nothing was known
	check(300, 5, 300, true, true)

	th.started(100, 101, 70) // before it was of process 200
	check(101, 95, 200, false, true)
	if th.Live(100) != 0 {
		t.Errorf("%d live", th.Live(100))
	}

	th.Expire(90)
	check(101, 89, 0, false, false)
	check(101, 90, 200, false, true)
	th.Expire(space.Forever - 1)
	if len(th.byTID) != 2 || len(th.live) != 2 {
		t.Errorf("left are %v, %v", th.byTID, th.live)
	}
}

// TestManyLives: however often a number is used again, each of its lives is known, in
// any order of questions, until there are too many of all numbers.
func TestManyLives(t *testing.T) {
	const lives, limit = 1000, 1500
	th := newThreads()
	th.limit = limit
	check := func(first, number int) {
		t.Helper()
		rnd := rand.New(rand.NewPCG(1, 1))
		for _, i := range rnd.Perm(lives) {
			at := tracefs.Time(10 * i)
			known := i >= first
			if pid, late, ok := th.PID(1, at+5); ok != known || known && (pid != number+i || late) {
				t.Fatalf("life %d is of %d, late %v, %v", i, pid, late, ok)
			}
			if born, ended, ok := th.Life(1, at+5); ok != known || known && (born != at || ended != at+9) {
				t.Fatalf("life %d is from %d to %d, %v", i, born, ended, ok)
			}
			if pid, _, ok := th.PID(1, at+9); ok {
				t.Fatalf("after life %d it is of %d", i, pid)
			}
		}
	}
	for i := range tracefs.Time(lives) {
		th.started(int(100+i), 1, 10*i)
		th.ended(int(100+i), 1, 10*i+9)
	}
	check(0, 100)
	th.Expire(10*300 + 9)
	check(301, 100)
	for i := range tracefs.Time(limit) { // of other numbers
		th.started(int(100+i), int(100+i), 10*lives+i)
	}
	check(301, 100) // they live
	for i := range tracefs.Time(limit) {
		th.ended(int(100+i), int(100+i), 20*lives+i)
	}
	check(lives, 100)
	if pid, _, ok := th.PID(100+limit-1, 20*lives); !ok || pid != 100+limit-1 || th.past > limit || len(th.live) != 0 {
		t.Errorf("the last one was of %d, %v; %d are kept, %d live", pid, ok, th.past, len(th.live))
	}
	sum := 0
	for _, list := range th.byTID {
		sum += len(list)
	}
	if sum != th.past {
		t.Errorf("there are %d lives, %d were counted", sum, th.past)
	}
}

func TestGaps(t *testing.T) {
	var g Gaps
	check := func(want map[tracefs.Time]bool) {
		t.Helper()
		for at, doubt := range want {
			if g.Doubtful(at) != doubt {
				t.Errorf("at %d: %v", at, !doubt)
			}
		}
	}
	g.end(5)
	check(map[tracefs.Time]bool{0: false})
	since := func(at tracefs.Time, want bool) {
		t.Helper()
		if g.Since(at) != want {
			t.Errorf("since %d: %v", at, !want)
		}
	}
	since(0, false)
	g.begin(10, 10)
	g.begin(15, 15)
	g.begin(8, 8)
	check(map[tracefs.Time]bool{7: false, 8: true, 1 << 40: true})
	since(1<<40, true)
	if missed, until, ok := g.Around(9); missed != 15 || until != space.Forever || !ok {
		t.Errorf("around 9: %d, %d, %v", missed, until, ok)
	}
	g.end(20)
	g.end(30)
	if missed, until, ok := g.Around(9); missed != 15 || until != 20 || !ok {
		t.Errorf("around 9: %d, %d, %v", missed, until, ok)
	}
	g.begin(40, 40)
	g.end(50)
	check(map[tracefs.Time]bool{8: true, 19: true, 20: false, 39: false, 40: true, 49: true, 50: false})
	since(7, true)
	since(39, true)
	since(50, false)
	g.begin(18, 18) // it came to light late
	check(map[tracefs.Time]bool{7: false, 8: true, 60: true})
	g.end(70)
	if len(g.list) != 1 || g.Open() {
		t.Errorf("%v", g.list)
	}
	for i := range tracefs.Time(3 * maxGaps) {
		g.begin(100+2*i, 100+2*i)
		g.end(101 + 2*i)
	}
	if len(g.list) > maxGaps {
		t.Errorf("%d gaps are kept", len(g.list))
	}
	check(map[tracefs.Time]bool{10: true, 100: true}) // joined, to be on the safe side
	g.expire(100 + 6*maxGaps)
	if len(g.list) != 0 {
		t.Errorf("%d gaps are left", len(g.list))
	}
}
