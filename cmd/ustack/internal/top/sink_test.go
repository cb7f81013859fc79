package top

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/pump"
	"ustack/cmd/ustack/internal/terminaltest"
	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// noScreen is a screen on which nothing is seen.
type noScreen struct {
	gone          chan struct{}
	begun, closed int
}

func (s *noScreen) Start()                { s.begun++ }
func (s *noScreen) Gone() <-chan struct{} { return s.gone }
func (s *noScreen) Close()                { s.closed++ }

// waits are so many waits of two threads for two locks, the first one three times as long,
// from a time in microseconds on.
func waits(from, n int) string {
	var b strings.Builder
	line := func(at, tid int, text string) {
		fmt.Fprintf(&b, "%16s-%d [00%d] ..... %d.%06d: %s\n", "prog", tid, tid%10, (from+at)/1_000_000, (from+at)%1_000_000, text)
	}
	for i := range n {
		at := 10 * i
		line(at, 10, "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)")
		line(at+1, 11, "sys_futex(uaddr: 0x2000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)")
		line(at+3, 11, "sys_futex -> 0x0")
		line(at+6, 10, "sys_futex -> 0x0")
	}
	return b.String()
}

// sinkOf is a sink of a trace that a test makes, with what is written at its end.
func sinkOf(t *testing.T, on screen, dir string) (*sink, *strings.Builder) {
	t.Helper()
	f := Flags{noNames: true, noOwners: true, dir: dir}
	f.view.Register(command.NewFlags("top"))
	if err := f.view.Check(); err != nil {
		t.Fatal(err)
	}
	w := new(wishes)
	w.see(view{By: futex.ByObject})
	out := new(strings.Builder)
	s := newSink(&f, &live.Reporter{Command: "top", Out: io.Discard}, out, on, newMailbox(), w)
	never := func() tracefs.Time { return 0 }
	if _, err := s.Open(&live.Start{Stopped: never, Idle: func() bool { return false }, Refused: func() uint64 { return 0 }}); err != nil {
		t.Fatal(err)
	}
	return s, out
}

// passTo passes a trace to the sink, and calls step after each batch.
func passTo(t *testing.T, s *sink, trace string, step func(*resolve.Totals)) {
	t.Helper()
	in, err := input.OpenAll([]string{"-"}, strings.NewReader("# tracer: nop\n#\n"+trace), input.Options{Events: true, NoText: true})
	if err != nil {
		t.Fatal(err)
	}
	res := resolve.New(resolve.Options{Hold: pump.StitchedHold(), Stitch: true, Sources: 1})
	_, err = pump.Run(in.Start(), res, s.Renderer(res), func() { step(res.Totals()) })
	if err != nil {
		t.Fatal(err)
	}
}

// stepped has the sink look at its wishes, and make a snapshot.
func stepped(t *testing.T, s *sink, totals *resolve.Totals) {
	t.Helper()
	s.look, s.soon, s.next = time.Time{}, time.Time{}, time.Time{}
	if done, err := s.Step(totals); done || err != nil {
		t.Fatalf("%v, %v", done, err)
	}
}

// said waits until the sink has said something, after more than so many messages.
func said(t *testing.T, s *sink, after int) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.count <= after; {
		if time.Now().After(deadline) {
			t.Fatal("nothing is said")
		}
		stepped(t, s, new(resolve.Totals))
		time.Sleep(time.Millisecond)
	}
	return s.said
}

// TestSink: a snapshot has what was waited for, the lock that is open comes with its text, and
// a report is saved of all, and a page of what came after the mark.
func TestSink(t *testing.T) {
	dir := t.TempDir()
	none := &noScreen{gone: make(chan struct{})}
	s, out := sinkOf(t, none, dir)
	const before, after = 500, 200
	passTo(t, s, waits(0, before), func(totals *resolve.Totals) { stepped(t, s, totals) })
	snap := <-s.snapshots
	if len(snap.Rows) != 2 || snap.Rows[0].Waits != before || snap.Rows[0].Time != before*6000 || snap.Rows[1].Time != before*2000 || !strings.Contains(snap.Rows[0].Where, "0x1000") {
		t.Fatalf("%+v", snap)
	}
	s.wishes.see(view{By: futex.ByLock, Open: snap.Rows[1].Key})
	stepped(t, s, new(resolve.Totals))
	snap = <-s.snapshots
	if text := strings.Join(snap.Detail, "\n"); snap.By != futex.ByLock || !strings.Contains(text, "0x2000") || !strings.Contains(text, "waiters: prog-11") {
		t.Errorf("%+v", snap)
	}
	s.wishes.give(order{what: orderHTML})
	if got := said(t, s, 0); !strings.HasPrefix(got, "m or l first") {
		t.Errorf("without a mark: %s", got)
	}
	s.wishes.give(order{what: orderText})
	all := saved(t, said(t, s, 1))
	s.wishes.give(order{what: orderMark})
	said(t, s, 2)
	passTo(t, s, waits(10*before, after), func(totals *resolve.Totals) { stepped(t, s, totals) })
	s.wishes.give(order{what: orderText})
	part := saved(t, said(t, s, 3))
	for text, n := range map[string]int{all: before, part: after} {
		if !strings.Contains(text, fmt.Sprintf("%d waits: %d woken", n, n)) {
			t.Errorf("not %d waits:\n%s", n, text)
		}
	}
	s.wishes.give(order{what: orderHTML})
	if page := saved(t, said(t, s, 4)); !strings.Contains(page, "<html") || !strings.Contains(page, "0x1000") {
		t.Errorf("%.200s", page)
	}
	if s.windows.all() != nil {
		t.Error("the mark is still there")
	}
	close(none.gone)
	if done, err := s.Step(new(resolve.Totals)); err != nil || !done && time.Now().After(s.look) {
		t.Errorf("%v, %v", done, err)
	}
	if err := s.End(); err != nil || none.closed != 1 || !strings.Contains(out.String(), fmt.Sprint(before+after)) {
		t.Errorf("%v, %q", err, out)
	}
}

// saved returns the text of a file that was saved.
func saved(t *testing.T, message string) string {
	t.Helper()
	name, ok := strings.CutPrefix(message, "saved ")
	if !ok {
		t.Fatal(message)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSaver: files that are saved at one time have names of their own.
func TestSaver(t *testing.T) {
	s := saver{dir: t.TempDir(), now: func() time.Time { return time.Unix(0, 0).UTC() }}
	for _, want := range []string{"ustack-top-19700101-000000.000.txt", "ustack-top-19700101-000000.000-2.txt", "ustack-top-19700101-000000.000-3.txt"} {
		if !s.save(".txt", func(w io.Writer) error { _, err := io.WriteString(w, want); return err }) {
			t.Fatal("one file at a time")
		}
		s.wait()
		r, _ := s.ended()
		if text, err := os.ReadFile(r.name); r.err != nil || filepath.Base(r.name) != want || string(text) != want {
			t.Errorf("%+v, %q, %v, want %s", r, text, err, want)
		}
	}
}

// TestSaveFails: a directory that cannot be written to is said, and the screen goes on.
func TestSaveFails(t *testing.T) {
	s, _ := sinkOf(t, &noScreen{}, filepath.Join(t.TempDir(), "none"))
	passTo(t, s, waits(0, 10), func(totals *resolve.Totals) { stepped(t, s, totals) })
	s.wishes.give(order{what: orderText})
	if got := said(t, s, 0); !strings.Contains(got, "creating the report") {
		t.Error(got)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

// TestWindows: the analysis of the last part has at least the time that is kept, and no more
// than twice that; the mark's begins there.
func TestWindows(t *testing.T) {
	const keep = 10
	w := windows{start: func() *futex.Analysis { return futex.New(futex.Options{Calls: true}) }, keep: keep}
	for now := tracefs.Time(1); now < 200; now++ {
		w.turn(now)
		kept := now - w.saved().since
		if kept < min(now-1, keep) || kept > 2*keep {
			t.Fatalf("at %d, %d is kept", now, kept)
		}
		if n := len(w.all()); n > 2 {
			t.Fatalf("%d analyses", n)
		}
	}
	w.mark(150)
	w.mark(160)
	if w.saved().since != 160 || len(w.all()) != 3 || w.take().since != 160 {
		t.Errorf("%+v", w)
	}
	late := w.late
	if w.take(); w.saved() != late || w.late.a != nil {
		t.Errorf("%+v, want %+v", w.early, late)
	}
	w.close()
	if w.all() != nil || w.take().a != nil {
		t.Errorf("%+v", w)
	}
	// The last seconds that the screen asks for take the place of a mark and of other ones.
	w.mark(200)
	w.last(2*keep, 210)
	if w.saved().since != 210 || len(w.all()) != 1 {
		t.Errorf("%+v", w)
	}
	w.turn(231)
	if w.last(2*keep, 232); w.saved().since != 210 || len(w.all()) != 2 {
		t.Errorf("the same time again: %+v", w)
	}
	if w.last(0, 240); w.all() != nil || w.saved().a != nil {
		t.Errorf("none: %+v", w)
	}
}

// TestLast: what is typed on the screen keeps the last seconds, which w saves.
func TestLast(t *testing.T) {
	s, _ := sinkOf(t, &noScreen{}, t.TempDir())
	passTo(t, s, waits(0, 300), func(totals *resolve.Totals) { stepped(t, s, totals) })
	s.wishes.give(order{what: orderKeep, keep: 30 * time.Second})
	if got := said(t, s, 0); !strings.HasPrefix(got, "keeps the last 30s") {
		t.Error(got)
	}
	s.wishes.give(order{what: orderHTML})
	if got := said(t, s, 1); !strings.HasPrefix(got, "nothing to save yet: no call since what is kept began ") || s.windows.saved().a == nil {
		t.Error(got)
	}
	passTo(t, s, waits(3000, 100), func(totals *resolve.Totals) { stepped(t, s, totals) })
	s.wishes.give(order{what: orderText})
	if text := saved(t, said(t, s, 2)); !strings.Contains(text, "100 waits: 100 woken") {
		t.Error(text)
	}
	s.wishes.give(order{what: orderKeep})
	if said(t, s, 3); s.windows.all() != nil {
		t.Errorf("%+v", s.windows)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

// TestSavedAtEnd: what was ordered just before the trace ended is saved, and where is said
// after the screen, as is what was still being written.
func TestSavedAtEnd(t *testing.T) {
	dir := t.TempDir()
	s, _ := sinkOf(t, &noScreen{}, dir)
	var messages strings.Builder
	s.Reporter.Out = &messages
	s.wishes.give(order{what: orderMark})
	said(t, s, 0)
	passTo(t, s, waits(0, 300), func(totals *resolve.Totals) { stepped(t, s, totals) })
	s.wishes.give(order{what: orderText})
	stepped(t, s, new(resolve.Totals)) // begins to write it
	for _, what := range []task{orderHTML, orderHTML} {
		s.wishes.give(order{what: what})
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var texts, pages int
	for _, name := range files {
		text := saved(t, "saved "+name)
		if strings.Contains(text, "300 waits: 300 woken") {
			texts++
		}
		if strings.Contains(text, "<html") {
			pages++
		}
	}
	// The screen may have said already that the first one is written.
	if said := strings.Count(messages.String(), "saved "); said != len(files) && said != len(files)-1 {
		t.Errorf("%d of %d files are reported: %s", said, len(files), messages.String())
	}
	if texts != 1 || pages != 1 || strings.Count(messages.String(), "m or l first") != 1 {
		t.Errorf("%d texts, %d pages: %s", texts, pages, messages.String())
	}
}

// TestOrdersDoNotWait: what is kept begins when it is asked for, not after the time that
// follows a snapshot that took long.
func TestOrdersDoNotWait(t *testing.T) {
	s, _ := sinkOf(t, &noScreen{}, t.TempDir())
	late := time.Now().Add(time.Hour)
	s.soon, s.next = late, late
	s.wishes.give(order{what: orderKeep, keep: time.Second})
	if done, err := s.Step(new(resolve.Totals)); done || err != nil || s.windows.saved().a == nil {
		t.Errorf("%v, %v, %+v", done, err, s.windows)
	}
	if len(s.snapshots) > 0 {
		t.Error("there is a snapshot before its time")
	}
	s.wishes.give(order{what: orderQuit})
	s.look = time.Time{}
	if done, err := s.Step(new(resolve.Totals)); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

// TestSpend: while records are being lost there are fewer snapshots.
func TestSpend(t *testing.T) {
	var s sink
	totals := new(resolve.Totals)
	for i, lost := range []uint64{0, 5, 5, 6} {
		totals.Lost = map[int32]resolve.Loss{0: {Records: lost}}
		if got := s.spend(totals); (got == spendLosing) != (i%2 == 1) {
			t.Errorf("%d lost: %d", lost, got)
		}
	}
}

// TestBlocked: a terminal that takes nothing stops neither the analysis nor its end.
func TestBlocked(t *testing.T) {
	person, tty := terminaltest.Open(t)
	defer tty.Close()
	t.Setenv("TERM", "xterm")
	w := new(wishes)
	box := newMailbox()
	m := newModel(Look{}, w, box)
	on, err := newTerminal(m, tty, tty)
	if err != nil {
		t.Fatal(err)
	}
	flow(t, tty, tcooff)
	s, _ := sinkOf(t, on, t.TempDir())
	s.snapshots, s.wishes, on.grace = box, w, time.Millisecond
	const n = 20_000
	passTo(t, s, waits(0, n), func(totals *resolve.Totals) { stepped(t, s, totals) })
	if got := s.Analysis().Calls(); got != 4*n {
		t.Errorf("%d calls of %d", got, 4*n)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
	if err := on.Err(); err == nil {
		t.Error("the screen could end")
	}
	terminaltest.Watch(t, person)
	flow(t, tty, tcoon)
	<-on.gone
}

// Of man 3 tcflow: a terminal takes nothing, and goes on.
const tcooff, tcoon = 0, 1

func flow(t *testing.T, tty *os.File, action int) {
	t.Helper()
	if err := unix.IoctlSetInt(int(tty.Fd()), unix.TCXONC, action); err != nil {
		t.Fatal(err)
	}
}

// TestApart: the screen does not stand still for long, also where a snapshot takes long.
func TestApart(t *testing.T) {
	for _, c := range []struct{ took, spend, want time.Duration }{
		{0, spend, snapshotEvery},
		{time.Millisecond, spendLosing, snapshotEvery},
		{100 * time.Millisecond, spend, 2 * time.Second},
		{2 * time.Second, spend, mostApart},
		{100 * time.Millisecond, spendLosing, mostApart},
	} {
		if got := apart(c.took, c.spend); got != c.want {
			t.Errorf("%v %d times: %v, want %v", c.took, c.spend, got, c.want)
		}
	}
}
