package progress

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// shown collects what a line shows.
type shown struct{ lines []string }

func (s *shown) show(line string) { s.lines = append(s.lines, line) }

// late makes the steps of a line begin earlier, and has it change.
func late(l *Line, by time.Duration) {
	l.mu.Lock()
	for _, s := range l.steps {
		s.began = s.began.Add(-by)
	}
	l.mu.Unlock()
	l.tick()
}

// TestText: what is done, how far, and how long it takes.
func TestText(t *testing.T) {
	at := func(done, all int64) How { return func() (int64, int64) { return done, all } }
	for _, c := range []struct {
		how    How
		lasted time.Duration
		want   string
	}{
		{nil, 1500 * time.Millisecond, "x: 2 s"},
		{at(0, 0), time.Second, "x: 1 s"},
		{at(12_345, 0), 70 * time.Second, "x: 12 KB, 1 min 10 s"},
		{at(0, 500), time.Second, "x: 0 % of 500 B, 1 s"},
		{at(250, 1000), 2 * time.Second, "x: 25 % of 1000 B, 6 s left"},
		{at(20e6, 40e6), 90 * time.Second, "x: 50 % of 40 MB, 1 min 30 s left"},
		{at(2000, 1000), time.Second, "x: 100 % of 1000 B, 0 s left"},
		{at(1, 1<<62), time.Hour, "x: 0 % of 4611686018427 MB, 6000 min 0 s left"},
	} {
		s := &Step{what: "x", how: c.how}
		if got := s.text(c.lasted); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestSteps: the innermost step that has lasted is shown, and with the last one's end the
// line goes.
func TestSteps(t *testing.T) {
	var s shown
	l := New(s.show)
	outer := l.Begin("outer", nil)
	late(l, after)
	inner := l.Begin("inner \033[31m\u202e", nil)
	l.tick() // too early for it
	late(l, after)
	inner.End()
	inner.End()
	l.tick()
	l.Begin("left open", nil)
	outer.End()
	l.tick() // nothing is shown any more
	want := []string{"outer", "outer", `inner \x1b[31m\u202e`, "outer", ""}
	var got []string
	for _, line := range s.lines { // without how long it took
		what, _, _ := strings.Cut(line, ": ")
		got = append(got, what)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", s.lines, want)
	}
	if l.timer != nil || len(l.steps) != 0 {
		t.Errorf("%d steps are left", len(l.steps))
	}
}

// TestNone: a nil Line shows nothing.
func TestNone(t *testing.T) {
	var l *Line
	l.Begin("x", nil).End()
}
