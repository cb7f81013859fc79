package sideband

import (
	"testing"

	"ustack/filemap/procmap"
)

// losingWatcher loses a record whenever a file is to be watched.
type losingWatcher struct{ band *Band }

func (w *losingWatcher) Watch(int, *procmap.Mapping) bool {
	if w.band != nil {
		now := w.band.Now()
		w.band.gap(0, 1, now, now)
	}
	return false
}

func (w *losingWatcher) Drain() {}

// TestLossGoesOn: where records are lost while all processes are read, reading them ends
// early. On a loaded machine it went on for minutes, and the trace waited.
func TestLossGoesOn(t *testing.T) {
	losing := new(losingWatcher)
	b, r := openBand(t, Options{Watcher: losing, Written: new(Written), patience: 1})
	all, err := b.Refresh(r)
	for n := 0; err == nil && b.History.Gaps.Open() && n < 100; n++ { // what else the machine does
		all, err = b.Refresh(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	losing.band = b
	counts, err := b.Refresh(r)
	if err != nil {
		t.Fatal(err)
	}
	if counts.Processes > all.Processes/2 || !b.History.Gaps.Open() {
		t.Errorf("%d of %d processes were read, in doubt: %v", counts.Processes, all.Processes, b.History.Gaps.Open())
	}
	losing.band = nil
	if counts, err = b.Refresh(r); err != nil || counts.Processes < all.Processes/2 && !b.History.Gaps.Open() {
		t.Errorf("after that: %d of %d processes, %v", counts.Processes, all.Processes, err)
	}
}
