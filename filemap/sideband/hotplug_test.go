package sideband

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestLeaves: what a CPU records after its ring was read and before it goes offline is known,
// and what the kernel may not have recorded then is in doubt, until all is read again.
func TestLeaves(t *testing.T) {
	stays, leaves := fakeRing(0, 1<<14), fakeRing(1, 1<<14)
	b := fakeBand(stays, leaves)
	sys := t.TempDir()
	file := filepath.Join(sys, perf.OnlineFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), unix.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	lookAgain(b, sys)
	var forked, mapped uint64
	listed := make(chan error)
	go func() {
		list, err := os.OpenFile(file, os.O_WRONLY, 0) // waits for the Drain, which has read the rings by then
		if err == nil {
			forked, mapped = uint64(b.Now()), uint64(b.Now())+1
			leaves.write(rawTask(unix.PERF_RECORD_FORK, 20, 1, 20, 1, forked, 1), rawMap(20, 20, 0x1000, 0x1000, 0, rx, 2, "/library", mapped))
			_, err = list.WriteString("0\n")
			err = errors.Join(err, list.Close())
		}
		listed <- err
	}()
	d, err := b.Drain()
	if err := errors.Join(err, <-listed); err != nil {
		t.Fatal(err)
	}
	if d.Records != 2 || d.Left != 1 || !d.Doubt || d.Lost != 0 || len(b.rings.list) != 1 {
		t.Errorf("%+v, %d rings", d, len(b.rings.list))
	}
	for at, doubtful := range map[uint64]bool{mapped - 1: false, mapped: true, uint64(d.Until): true} {
		if b.History.Gaps.Doubtful(tracefs.Time(at)) != doubtful {
			t.Errorf("%d ns after the fork: doubt %v", at-forked, !doubtful)
		}
	}
	p, ok := b.History.Lookup(20, 0x1000, tracefs.Time(mapped))
	if !ok || p.Mapping.File.Name != "/library" || !p.Doubtful {
		t.Errorf("%+v, %v", p, ok)
	}
	if missed, until, _ := b.History.Gaps.Around(tracefs.Time(mapped)); missed > d.Until || until != space.Forever {
		t.Errorf("records are missing until %d, the doubt lasts until %d", missed, until)
	}
}
