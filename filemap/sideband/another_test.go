package sideband

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// began is when this process was started, by the monotonic clock, to a tick.
func began(t *testing.T, r *procmap.Reader) tracefs.Time {
	t.Helper()
	st, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ahead := perf.Now(unix.CLOCK_BOOTTIME) - perf.Now(unix.CLOCK_MONOTONIC)
	return tracefs.Time(st.StartTime)*tracefs.Time(10*time.Millisecond) - ahead
}

// TestAnotherSinceLoss: of a process that was not read before a loss, only its fork is known. What
// is read after the loss is another process of its number if it was started later than that. A
// replay of the log finds the same.
func TestAnotherSinceLoss(t *testing.T) {
	r, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: procmap.NewIDs(nil), Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	pid, start := os.Getpid(), began(t, r)
	var now procmap.Process
	if err := r.Process(pid, &now); err != nil {
		t.Fatal(err)
	}
	const second = tracefs.Time(time.Second)
	for perf.Now(unix.CLOCK_MONOTONIC) < start+second/50 {
		time.Sleep(time.Millisecond)
	}
	for _, c := range []struct {
		name    string
		fork    tracefs.Time
		lose    bool
		another bool
	}{
		{"started after the fork", start - second, true, true},
		{"started by the fork", start + second/100, true, false},
		{"nothing is lost", start - second, false, false},
	} {
		var log bytes.Buffer
		b := fakeBand()
		b.History.log = &logWriter{w: &log, buf: []byte(logHead + "mono\n")}
		b.History.fork(1, pid, c.fork)
		b.History.comm(pid, now.Stat.Comm, c.fork+1)
		for i := range now.Mappings { // as children of one parent have
			b.History.mapped(pid, &now.Mappings[i], c.fork+1)
		}
		b.History.mapped(pid, &procmap.Mapping{Start: 0x10000, End: 0x20000, Perms: rx, Inode: 7, Name: "/lib/P"}, c.fork+1)
		if c.lose {
			b.gap(0, 1, c.fork+2, b.Now())
		}
		if err := b.Read(r, pid, b.History.Gaps.from()); err != nil {
			t.Fatal(err)
		}
		if err := b.History.Complete(b.Now()); err != nil {
			t.Fatal(err)
		}
		replayed, err := Load(space.New(), strings.NewReader(log.String()))
		if err != nil {
			t.Fatal(err)
		}
		for what, h := range map[string]*History{"live": b.History, "replay": replayed} {
			now := b.Now()
			if got := h.Spaces.Space(pid).Began(now) > c.fork; got != c.another {
				t.Errorf("%s, %s: another process: %v, want %v", c.name, what, got, c.another)
			}
			if p, ok := h.Spaces.Lookup(pid, 0x10010, c.fork+1); !ok || p.Late {
				t.Errorf("%s, %s: what the former process had is not known any more", c.name, what)
			}
			if v := h.Spaces.Space(pid).At(now); v == nil || v.StartTime == 0 || v.Find(0x10010) != nil {
				t.Errorf("%s, %s: the reading is not noted: %+v", c.name, what, v)
			}
			if of, late, ok := h.Threads.PID(pid, now); of != pid || late || !ok || h.Threads.Live(pid) == 0 {
				t.Errorf("%s, %s: its thread is of process %d, %v, %v", c.name, what, of, late, ok)
			}
		}
	}
}
