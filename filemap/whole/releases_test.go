package whole

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// TestReleaseBudget: what a second allows comes back with time, no more than may come at
// once, and an eighth of it where samples have had nothing to add.
func TestReleaseBudget(t *testing.T) {
	const second = tracefs.Time(1e9)
	r := releases{perSecond: 4000}
	for _, c := range []struct {
		name  string
		left  int
		after tracefs.Time
		seen  useful
		want  int
	}{
		{"nothing is left", -500, second / 8, useful{100, 100}, 0},
		{"a long time", -500, 20 * second, useful{100, 100}, 1000},
		{"no time", 7, 0, useful{}, 7},
		{"nothing to add", 0, second / 8, useful{100, 4}, 62},
		{"too few to say", 0, second / 8, useful{49, 0}, 500},
		{"enough to add", 0, second / 8, useful{100, 5}, 500},
	} {
		r.left, r.filled, r.useful = c.left, 5*second, c.seen
		r.fill(5*second + c.after)
		if r.left != c.want {
			t.Errorf("%s: %d samples, want %d", c.name, r.left, c.want)
		}
	}
	r.left, r.useful = 900, useful{100, 0}
	if r.fill(r.filled + 8*second); r.useful.not() || r.left != r.most() {
		t.Errorf("it is not tried anew: %+v, %d left", r.useful, r.left)
	}
}

// TestReleaseFilter: of all commands, with any flag that glibc uses, the filters pass those
// that let others go on, and those that wait.
func TestReleaseFilter(t *testing.T) {
	const private = 128
	for cmd := syscalls.Wait; cmd < syscalls.Waitv; cmd++ {
		for _, op := range []int{int(cmd), int(cmd) | private} {
			if got := passes(t, releaseFilter(), op); got != cmd.Wakes() {
				t.Errorf("releases: %v (%d): %v", cmd, op, got)
			}
			if got := passes(t, waitFilter(), op); got != cmd.Waits() {
				t.Errorf("waits: %v (%d): %v", cmd, op, got)
			}
		}
	}
}

// passes reports whether a filter of the form op!=N&&…&&(op==N||…) passes an operation.
func passes(t *testing.T, filter string, op int) bool {
	t.Helper()
	not, list, ok := strings.Cut(filter, "&&(")
	if !ok {
		t.Fatal(filter)
	}
	for _, term := range strings.Split(not, "&&") {
		if term == fmt.Sprintf("op!=%d", op) {
			return false
		}
	}
	return slices.Contains(strings.Split(strings.TrimSuffix(list, ")"), "||"), fmt.Sprintf("op==%d", op))
}

// TestReleasesLate: releases go on now and then while the trace is read late, if enough are
// left of what a second allows.
func TestReleasesLate(t *testing.T) {
	for _, c := range []struct {
		left  int
		after tracefs.Time
		few   bool
		want  bool
	}{
		{250, 1, true, true}, {250, 1, false, false}, {250, tasteEvery, false, true}, {249, tasteEvery, false, false}, {249, 1, true, false},
	} {
		r := releases{perSecond: 4000, left: c.left, since: 5e9}
		if got := r.goesOn(5e9+c.after, c.few); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
