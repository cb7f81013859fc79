//go:build !device && (amd64 || arm64)

package sums

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/recorder"
	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap"
	"ustack/render/futex"
	"ustack/render/record"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// recorded runs a recorder with a simulated source for a simulated time.
func recorded(t *testing.T, src *simulated, duration time.Duration, ring recorder.RingOptions) (dir, said string) {
	t.Helper()
	dir = t.TempDir()
	var messages bytes.Buffer
	s, minWait := simulating(t, src, dir, ring, &messages)
	defer close(s.quit)
	if err := s.begin(minWait); err != nil {
		t.Fatal(err)
	}
	s.end = src.now().Add(duration)
	src.kept = s.to.(*recording).to.Kept
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil || !src.closed {
		t.Fatal(err)
	}
	return dir, messages.String()
}

// simulating returns a session that records what a simulated source has, before it begins.
func simulating(t *testing.T, src *simulated, dir string, ring recorder.RingOptions, messages io.Writer) (*session, time.Duration) {
	t.Helper()
	opt := &Options{Proc: "/proc", MinWait: RecordMinWait, Messages: messages, Record: &Recording{Ring: ring, Options: recorder.Options{
		Name: filepath.Join(dir, "report.zst"), Proc: "/proc", Version: "test", Reporter: &live.Reporter{Command: "record", Out: messages},
	}}}
	s := &session{opt: opt, source: src, clock: clock{src.now, src.clock}, signals: make(chan os.Signal, 4), quit: make(chan struct{})}
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	minWait, err := s.sink()
	if err != nil {
		t.Fatal(err)
	}
	return s, minWait
}

// read reads a report as futex does.
func read(t *testing.T, name string) *futex.Report {
	t.Helper()
	var out contention.Output
	a, err := out.Read(&saved.Options{Files: []string{name}, Quiet: true}, nil, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !a.SumsOnly() {
		t.Errorf("%s has no sums, or has calls", name)
	}
	return a.Report(futex.View{Top: 1000})
}

// TestRecorded: a report of a whole run has all waits and their time, of processes that have
// ended and made room, too, and each long wait that it has room for.
func TestRecorded(t *testing.T) {
	src := newSimulated(250 * time.Millisecond)
	src.most = 100 // 7 processes have no more
	dir, _ := recorded(t, src, 10*time.Minute, recorder.RingOptions{KeepSize: 64 << 20, MaxFiles: 1})
	r := read(t, filepath.Join(dir, "report.zst"))
	if src.loss.Apart == 0 {
		t.Error("all futexes had room")
	}
	if n := uint64(r.All.Waits); n != src.waits || r.All.Time != src.time {
		t.Errorf("%d waits, %v; want %d, %v", n, time.Duration(r.All.Time), src.waits, time.Duration(src.time))
	}
	var long int64
	for _, l := range r.Locks {
		for _, s := range l.WaitStacks {
			if s.None == "" {
				long += s.Count
				if n := len(s.Stack.Frames); n != simFrames || s.Stack.Frames[0].Reason != filemap.NoPath {
					t.Fatalf("a stack of %d frames: %+v", n, s.Stack.Frames[0])
				}
			}
		}
	}
	if long == 0 || uint64(long) > src.waits/4 {
		t.Errorf("%d waits with a stack of %d", long, src.waits)
	}
	if r.Start != simBegun || r.End < simBegun+tracefs.Time(10*time.Minute) {
		t.Errorf("from %v to %v", time.Duration(r.Start), time.Duration(r.End))
	}
}

// TestRecordedBounded: more long waits than a minute has room for are in the sums, and a report
// counts those that it leaves out.
func TestRecordedBounded(t *testing.T) {
	src := newSimulated(time.Millisecond)
	dir, _ := recorded(t, src, 2*time.Minute, recorder.RingOptions{KeepSize: 64 << 20, MaxFiles: 1})
	r := read(t, filepath.Join(dir, "report.zst"))
	if uint64(r.All.Waits) != src.waits || r.All.Time != src.time {
		t.Errorf("%d waits, %v; want %d, %v", r.All.Waits, r.All.Time, src.waits, src.time)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "a report is to take few bytes a minute") {
		t.Errorf("notes: %s", notes)
	}
	const perMinute, chunk = 200 << 10, 256 << 10
	if f, err := os.Stat(filepath.Join(dir, "report.zst")); err != nil || f.Size() > 2*perMinute+chunk {
		t.Errorf("a report of two minutes: %v, %v", f, err)
	}
}

// TestRecordedSoak: a simulated day of programs that begin and end, with triggers: each report
// is written, memory does not grow, and no minute takes more than 200 KB.
func TestRecordedSoak(t *testing.T) {
	hours := 1 // of simulated time
	if !testing.Short() && os.Getenv("USTACK_LONG") != "" {
		hours = 24
	}
	capturetest.SkipShort(t)
	src := newSimulated(250 * time.Millisecond)
	src.most = 1024 // so that it is full within the first half of an hour
	src.trigger, src.longest = 20*time.Minute, 700*time.Millisecond
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var first, last, most uint64
	var kept, minute int64
	minutes := 0
	src.tick = func() {
		minutes++
		now := src.kept()
		minute = max(minute, now-kept)
		kept = now
		if minutes%30 == 0 {
			last = heap()
			if minutes%240 == 0 {
				t.Logf("after %d hours: heap %d KiB", minutes/60, last>>10)
			}
			most = max(most, last)
			if minutes == 30 {
				first = last
			}
		}
	}
	want := hours * 3
	dir, said := recorded(t, src, time.Duration(hours)*time.Hour, recorder.RingOptions{Keep: 30 * time.Second, KeepSize: 8 << 20, After: time.Second, CoolDown: 10 * time.Second,
		MaxFiles: want + 1, Triggers: []record.Trigger{{Wait: 500 * time.Millisecond}}})
	reports, err := filepath.Glob(filepath.Join(dir, "report.zst*"))
	if err != nil || len(reports) < want-1 || len(reports) > want {
		t.Errorf("%d reports, %v; want %d; it said %s", len(reports), err, want, said)
	}
	r := read(t, reports[0])
	if len(r.Longest) == 0 || time.Duration(r.Longest[0].Time) != src.longest {
		t.Errorf("the first report does not have the wait that it is about: %+v", r.Longest)
	}
	t.Logf("%d simulated minutes, %d waits: %d bytes in the fullest minute; heap %d KiB after half an hour, %d at the end, %d at most", minutes, src.waits, minute, first>>10, last>>10, most>>10)
	const perMinute, slack = 200 << 10, 2 << 20
	if minute > perMinute {
		t.Errorf("%d bytes in a minute", minute)
	}
	if last > first+slack {
		t.Errorf("the heap grew from %d to %d bytes", first, last)
	}
}

// TestRecordedSteps: what the programs add after a sum was read, for a call that it has in part, is
// in the next sums, though they have no more calls.
func TestRecordedSteps(t *testing.T) {
	src := newSimulated(250 * time.Millisecond)
	late := 0
	src.tick = func() {
		for f, sum := range src.sums {
			if int(f.TGID) >= simFirst+src.n-1 || late >= 2*len(src.sums) {
				continue // it may wait yet
			}
			sum.Woken++
			sum.Seen.Realtime = true
			sum.Buckets[3]++
			late++
		}
	}
	dir, _ := recorded(t, src, 3*time.Minute, recorder.RingOptions{KeepSize: 64 << 20, MaxFiles: 1})
	var woken, want int64
	for _, sum := range src.sums {
		want += int64(sum.Woken)
	}
	r := read(t, filepath.Join(dir, "report.zst"))
	for _, l := range append(r.Locks, r.Signals...) {
		woken += l.Woken
	}
	if woken != want || late == 0 {
		t.Errorf("%d threads woken, want %d", woken, want)
	}
}

// TestPause: looks are seldom only where nothing new was read lately, no command is waited for and
// nothing is shown between.
func TestPause(t *testing.T) {
	now := time.Unix(1800000000, 0)
	s := func(change func(*session)) time.Duration {
		s := &session{opt: new(Options), clock: clock{now: func() time.Time { return now }}, files: &files{lately: now.Add(-time.Hour)}}
		change(s)
		return s.pause()
	}
	for name, c := range map[string]struct {
		change func(*session)
		want   time.Duration
	}{
		"calm":           {func(*session) {}, lookCalm},
		"a program came": {func(s *session) { s.files.lately = now.Add(-time.Second) }, lookSeldom},
		"a command":      {func(s *session) { s.child = new(live.Command) }, lookOften},
		"shown":          {func(s *session) { s.opt.Interval = time.Second }, time.Second / 2},
		"shown often":    {func(s *session) { s.opt.Interval = time.Millisecond }, lookSeldom},
		"ends soon":      {func(s *session) { s.end = now.Add(3 * time.Millisecond) }, 3 * time.Millisecond},
		"has ended":      {func(s *session) { s.end = now.Add(-time.Second) }, time.Millisecond},
	} {
		if got := s(c.change); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}
