//go:build linux

package raw

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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

// TestLiveOpen: what all CPUs write comes in the order of time, nothing is missing,
// and what is there when tracing stops still comes, from copied pages and from
// mapped ones.
func TestLiveOpen(t *testing.T) {
	for name, copied := range map[string]bool{"read": true, "mapped": false} {
		t.Run(name, func(t *testing.T) { testOpen(t, copied) })
	}
}

func testOpen(t *testing.T, copied bool) {
	in := live(t)
	if err := in.Configure(instance.Config{BufferKB: 16 << 10}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(in, Options{
		LiveOptions: binary.LiveOptions{Options: binary.Options{Events: true}, Pause: 10 * time.Millisecond},
		Events:      []instance.Event{{System: "sched", Name: "sched_switch"}},
		Copy:        copied,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	const each = 20_000
	writers := runtime.NumCPU()
	begin := make(chan struct{})
	paused := sync.OnceFunc(func() { close(begin) })
	defer paused()
	write(t, in, writers, each, begin)
	var b tracefs.Batch
	next := make([]int, writers)
	last := tracefs.Time(0)
	for err == nil {
		err = l.Next(&b)
		if b.Paused {
			paused()
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
	if err != io.EOF {
		t.Error(err)
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

// write has a thread on each CPU write numbered markers from a moment on, and stops the
// tracing when all are written.
func write(t *testing.T, in *instance.Instance, writers, each int, begin <-chan struct{}) {
	t.Helper()
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			<-begin
			runtime.LockOSThread() // and never unlocks it: the thread ends
			var one unix.CPUSet
			one.Set(w)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
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
}

// TestLiveLost: a reader that is too slow learns where records are missing, and
// exactly how many; from copied pages only if the kernel had room for the number.
func TestLiveLost(t *testing.T) {
	for name, copied := range map[string]bool{"read": true, "mapped": false} {
		t.Run(name, func(t *testing.T) { testLost(t, copied) })
	}
}

func testLost(t *testing.T, copied bool) {
	in := live(t)
	if err := in.Configure(instance.Config{BufferKB: 64}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(in, Options{
		LiveOptions: binary.LiveOptions{Options: binary.Options{Events: true}},
		Events:      []instance.Event{{System: "sched", Name: "sched_switch"}},
		Copy:        copied,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	const each = 30_000
	writers := runtime.NumCPU()
	begin := make(chan struct{})
	close(begin)
	write(t, in, writers, each, begin)
	var b tracefs.Batch
	next, gaps := make([]int, writers), 0
	unknown := make([]bool, writers)
	for err == nil && !t.Failed() {
		err = l.Next(&b)
		for i := range b.Records {
			r := &b.Records[i]
			if r.Kind == tracefs.KindLost {
				next[r.CPU] += int(r.Value)
				gaps++
				if unknown[r.CPU] = r.Value == 0; unknown[r.CPU] && !copied {
					t.Error("lost an unknown number")
				}
				continue
			}
			var w, n int
			body := string(b.Text[r.Body:r.End])
			_, err := fmt.Sscanf(body, "tracing_mark_write: writer %d says %d", &w, &n)
			if err == nil && unknown[w] && n > next[w] {
				next[w], unknown[w] = n, false
			}
			if err != nil || w != int(r.CPU) || n != next[w] {
				t.Errorf("%q of CPU %d (%v), after %v", body, r.CPU, err, next)
			}
			next[w]++
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err != io.EOF || gaps == 0 {
		t.Errorf("%d gaps, then %v", gaps, err)
	}
	for w, n := range next {
		if n != each {
			t.Errorf("%d records of writer %d", n, w)
		}
	}
	t.Logf("%d gaps", gaps)
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
	for kb, want := range map[int]time.Duration{0: 50 * time.Microsecond, 64: 64 * time.Microsecond, 1408: 1408 * time.Microsecond, 1 << 20: 8 * time.Millisecond} {
		if got := pace(kb); got != want {
			t.Errorf("%d KB: %v, want %v", kb, got, want)
		}
	}
}

// liveStacks is an instance with the stock stacks of our own calls of getppid.
func liveStacks(t *testing.T) *instance.Instance {
	t.Helper()
	in := live(t)
	tids, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	var own []int
	for _, e := range tids {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, tid)
	}
	_, serr := in.SetStacks(instance.StockStacks)
	if err := errors.Join(in.Configure(instance.Config{}), serr, in.SetPIDs(own, true)); err != nil {
		t.Fatal(err)
	}
	if _, err := in.SetStacks(instance.StockStacks); err != nil {
		t.Fatal(err)
	}
	if err := in.Enable([]instance.Event{{System: "syscalls", Name: "sys_enter_getppid"}}); err != nil {
		t.Fatal(err)
	}
	return in
}
