//go:build linux

package raw

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/instance"
)

// live makes an instance, or skips the test where that is not possible; if it
// must run (USTACK_LIVE=must), it fails.
func live(t *testing.T) *instance.Instance {
	t.Helper()
	r, err := instance.Find("")
	var in *instance.Instance
	if err == nil {
		in, err = r.Create()
	}
	if err != nil {
		if os.Getenv("USTACK_LIVE") == "must" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := in.Remove(); err != nil {
			t.Errorf("removing the instance: %v", err)
		}
	})
	return in
}

// TestLiveOpen: what all CPUs write comes in the order of time, nothing is
// missing, and what is there when tracing stops still comes.
func TestLiveOpen(t *testing.T) {
	in := live(t)
	if err := in.Configure(instance.Config{BufferKB: 16 << 10}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(in, Options{
		LiveOptions: binary.LiveOptions{Options: binary.Options{Events: true}, Pause: 10 * time.Millisecond},
		Events:      []instance.Event{{System: "sched", Name: "sched_switch"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	const each = 20_000
	writers := runtime.NumCPU()
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			time.Sleep(100 * time.Millisecond) // so that there is a pause
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var one unix.CPUSet
			one.Set(w)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Log(err) // then it is anywhere
			}
			marker, err := os.OpenFile(filepath.Join(in.Path(), "trace_marker"), os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer marker.Close()
			for i := range each {
				if _, err := fmt.Fprintf(marker, "writer %d says %d", w, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	go func() {
		wait.Wait()
		if err := in.Stop(); err != nil {
			t.Error(err)
		}
	}()
	var b tracefs.Batch
	next := make([]int, writers)
	pauses, last := 0, tracefs.Time(0)
	for err == nil {
		err = l.Next(&b)
		if b.Paused {
			pauses++
		}
		for i := range b.Records {
			r := &b.Records[i]
			at := b.Time(r)
			if at < last {
				t.Fatalf("a record of %d after one of %d", at, last)
			}
			last = at
			var w, n int
			body := string(b.Text[r.Body:r.End])
			if _, err := fmt.Sscanf(body, "tracing_mark_write: writer %d says %d", &w, &n); err != nil || w >= writers || n != next[w] {
				t.Fatalf("%q (%v), after %v", body, err, next)
			}
			next[w]++
		}
	}
	if err != io.EOF || pauses == 0 {
		t.Errorf("%d pauses, then %v", pauses, err)
	}
	for w, n := range next {
		if n != each {
			t.Errorf("%d records of writer %d", n, w)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestLiveRefused: with another clock the end of waiting would not be known.
func TestLiveRefused(t *testing.T) {
	in := live(t)
	if err := in.Configure(instance.Config{Clock: "global"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(in, Options{}); err == nil || !strings.Contains(err.Error(), "it must be mono") {
		t.Errorf("error %v", err)
	}
}

// TestLiveRemoved: removing the instance ends the reading.
func TestLiveRemoved(t *testing.T) {
	in := live(t)
	if err := in.Configure(instance.Config{}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(in, Options{Events: []instance.Event{{System: "sched", Name: "sched_switch"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		if err := in.Remove(); err != nil {
			t.Error(err)
		}
	}()
	var b tracefs.Batch
	for err == nil {
		err = l.Next(&b)
	}
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func TestPace(t *testing.T) {
	for kb, want := range map[int]time.Duration{0: 50 * time.Microsecond, 64: 64 * time.Microsecond, 1408: 1408 * time.Microsecond, 1 << 20: 2 * time.Millisecond} {
		if got := pace(kb); got != want {
			t.Errorf("%d KB: %v, want %v", kb, got, want)
		}
	}
}
