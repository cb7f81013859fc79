package top

import (
	"fmt"
	"time"

	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/render"
	"ustack/render/futex"
	"ustack/tracefs"
)

const (
	// snapshotEvery is how often there is a snapshot, wishEvery how often one that was
	// wished for.
	snapshotEvery = time.Second
	wishEvery     = 50 * time.Millisecond
	// spend is how many times as long as a snapshot has taken the next one waits at least:
	// of many locks there are fewer, so that reading goes on. spendLosing is the same while
	// records are being lost, where each moment of the reader counts.
	spend       = 20
	spendLosing = 200
	// mostApart is how far snapshots are apart at most, whatever one takes: a screen that
	// stands still seems to show what is so now.
	mostApart = 5 * time.Second
)

// sink is the live.Sink: it makes snapshots, and does what the screen orders.
type sink struct {
	*contention.Live
	windows windows
	screen  screen
	saver   saver

	snapshots mailbox
	wishes    *wishes

	seen  view      // of the last snapshot
	look  time.Time // when orders are taken: they wait for no snapshot, as what is kept begins then
	next  time.Time // when the next snapshot is due
	soon  time.Time // when one may be made that was wished for
	said  string
	count int    // of what was said
	lost  uint64 // records, up to the last snapshot
	quit  bool
}

// screen is what shows the snapshots.
type screen interface {
	// Start begins. Gone is closed once the screen is gone, also if the terminal ended it.
	Start()
	Gone() <-chan struct{}
	// Close ends it, if it is still there. It does not wait for a terminal that takes
	// nothing.
	Close()
}

// Open implements live.Sink.
func (s *sink) Open(start *live.Start) (live.Needs, error) {
	needs, err := s.Live.Open(start)
	s.windows.start = func() *futex.Analysis { return s.NewAnalysis(true) }
	needs.Tick, needs.OwnProgress = wishEvery, true
	return needs, err
}

// Renderer implements live.Sink.
func (s *sink) Renderer(res *resolve.Resolver) render.Renderer {
	s.screen.Start()
	return feed{s.Live.Renderer(res), &s.windows}
}

// Step implements live.Sink.
func (s *sink) Step(t *resolve.Totals) (done bool, err error) {
	if done, err = s.Live.Step(t); done || err != nil {
		return done, err
	}
	now := time.Now()
	if now.Before(s.look) {
		return false, nil
	}
	s.look = now.Add(wishEvery)
	at := space.Monotonic()
	s.windows.turn(at)
	for _, o := range s.wishes.take() {
		s.do(o, at)
	}
	s.reportSaved()
	select {
	case <-s.screen.Gone():
		return true, nil
	default:
	}
	if s.quit || now.Before(s.soon) {
		return s.quit, nil
	}
	if s.wishes.want() == s.seen && now.Before(s.next) {
		return false, nil
	}
	s.show(t, now)
	return false, nil
}

// do does what the screen has ordered.
func (s *sink) do(o order, at tracefs.Time) {
	switch o.what {
	case orderMark:
		s.windows.mark(at)
		s.say("marked: w and h save from here")
	case orderKeep:
		s.windows.last(o.keep, at)
		if o.keep == 0 {
			s.say("keeps no last seconds any more")
			break
		}
		s.say("keeps the last %v from now on: w and h save these, and up to as much before", o.keep)
	case orderText:
		s.saveText(at)
	case orderHTML:
		s.saveHTML(at)
	case orderQuit:
		s.quit = true
	}
	s.next = time.Time{} // the answer is to be seen at once
}

// say shows a message.
func (s *sink) say(format string, args ...any) {
	s.said = clean(fmt.Sprintf(format, args...))
	s.count++
	s.next = time.Time{}
}

// show makes a snapshot and hands it over.
func (s *sink) show(t *resolve.Totals, now time.Time) {
	want := s.wishes.want()
	s.name(s.Analysis()) // reads the debug information of a file once: that says nothing of the next one
	began := time.Now()
	s.snapshots.post(s.snapshot(t, want))
	s.seen = want
	took := time.Since(began)
	s.soon, s.next = now.Add(wishEvery+2*took), now.Add(apart(took, s.spend(t)))
}

// apart returns how long after a snapshot the next one is made, if it has taken a time, and
// how many times as long is to be spent otherwise.
func apart(took, spend time.Duration) time.Duration {
	return min(max(snapshotEvery, spend*took), mostApart)
}

// spend returns how many times as long as the last snapshot has taken the next one waits.
func (s *sink) spend(t *resolve.Totals) time.Duration {
	lost, _ := t.LostRecords()
	losing := lost > s.lost
	if s.lost = lost; losing {
		return spendLosing
	}
	return spend
}

// snapshot makes one.
func (s *sink) snapshot(t *resolve.Totals, want view) *Snapshot {
	a := s.Analysis()
	a.Refused(s.Start.Refused())
	r := a.Interim(futex.View{By: want.By, Sort: "total"})
	lost, exact := t.LostRecords()
	snap := &Snapshot{
		At: r.End, Events: t.Events, Lost: fmt.Sprint(lost), By: want.By,
		Opened: want.Open, Marked: s.windows.marked.since, Keep: s.windows.keep, Said: s.said, Messages: s.count,
	}
	if !exact {
		snap.Lost = "at least " + snap.Lost
	}
	snap.Rows, snap.More, snap.Detail = newRows(r, want.Open)
	return snap
}

// name names what there are names for.
func (s *sink) name(a *futex.Analysis) {
	if s.Names != nil {
		a.Name(s.Names)
		a.NameLocks(s.Names)
	}
}

// End implements live.Sink. The screen goes before the report comes. A trace may end at any
// time: what the screen has ordered by then is still done, and said after the screen.
func (s *sink) End() error {
	s.screen.Close()
	s.finish()
	s.windows.close()
	return s.Live.End()
}

// finish saves what was ordered and is not saved yet, and says how that went.
func (s *sink) finish() {
	sayLast := func() {
		before := s.count
		s.saver.wait()
		if s.reportSaved(); s.count > before {
			s.Reporter.Say("%s", s.said)
		}
	}
	sayLast()
	at := space.Monotonic()
	for _, o := range s.wishes.take() {
		if o.what == orderKeep || o.what == orderQuit {
			continue // of no use any more
		}
		before := s.count
		if s.do(o, at); s.count > before {
			s.Reporter.Say("%s", s.said)
		}
		sayLast()
	}
}
