package bounded

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
)

// never is a wait that no test waits for.
const never = time.Hour

func TestDo(t *testing.T) {
	c := New(never)
	got := 0
	if err := c.Do(func() { got = 7 }); err != nil || got != 7 {
		t.Errorf("%d, %v", got, err)
	}
}

// TestSlow: a call that does not come back is given up, so many of them and no
// more; when they come back there is room again.
func TestSlow(t *testing.T) {
	c := New(time.Millisecond)
	release := make(chan struct{})
	var back sync.WaitGroup
	for i := range maxSlow {
		back.Add(1)
		c.left = never // this is not about time
		if err := c.Do(func() { <-release; back.Done() }); !errors.Is(err, ErrSlow) {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	c.left = never
	if err := c.Do(func() { t.Error("it was made") }); !errors.Is(err, ErrRefused) {
		t.Errorf("one more: %v", err)
	}
	close(release)
	back.Wait()
	for slow := maxSlow; slow > 0; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		slow = c.slow
		c.mu.Unlock()
	}
	c.wait, c.left = never, never
	if err := c.Do(func() {}); err != nil {
		t.Errorf("after they came back: %v", err)
	}
}

// TestBudget: what calls take is taken from what they may take, which grows with
// time.
func TestBudget(t *testing.T) {
	c := New(time.Second)
	now := c.filled
	c.charge(free - 1)
	if c.left != waits*time.Second {
		t.Errorf("a short call is counted: %v left", c.left)
	}
	c.charge(waits * time.Second)
	if c.mayBegin(now) {
		t.Error("nothing is left, and a call may be made")
	}
	if !c.mayBegin(now.Add(share*time.Millisecond)) || c.left != time.Millisecond {
		t.Errorf("%v left after %v", c.left, share*time.Millisecond)
	}
	if !c.mayBegin(now.Add(never)) || c.left != waits*time.Second {
		t.Errorf("%v left after %v", c.left, never)
	}
}

// TestConcurrent is for the race detector.
func TestConcurrent(t *testing.T) {
	c := New(time.Millisecond)
	release := make(chan struct{})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			n := new(int)
			err := c.Do(func() {
				if i%4 == 0 {
					<-release
				}
				*n = i
			})
			if err == nil && *n != i {
				t.Errorf("%d from call %d", *n, i)
			}
		})
	}
	all.Wait()
	close(release)
}

// TestOneWorker: calls that come back are made by one worker, and take no memory. One
// that does not keeps its own, and is not taken for a later one when it does.
func TestOneWorker(t *testing.T) {
	c := New(never)
	n := 0
	count := func() { n++ }
	if allocs := testing.AllocsPerRun(100, func() {
		if err := c.Do(count); err != nil {
			t.Error(err)
		}
	}); allocs != 0 || n != 101 || len(c.idle.idle) != 1 {
		t.Errorf("%d calls take %v allocations each, and leave %d workers", n, allocs, len(c.idle.idle))
	}
	first := c.idle.idle[0]
	c.wait = time.Millisecond
	release := make(chan struct{})
	if err := c.Do(func() { <-release }); !errors.Is(err, ErrSlow) {
		t.Fatal(err)
	}
	c.wait = never
	for i := range 100 {
		n = 0
		if err := c.Do(count); err != nil || n != 1 {
			t.Fatalf("%d calls, %v", n, err)
		}
		if i == 0 {
			close(release)
		}
	}
	if len(c.idle.idle) != 1 || c.idle.idle[0] == first {
		t.Errorf("%d workers wait, the slow one too", len(c.idle.idle))
	}
	await(t, "the slow call comes back", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.slow == 0
	})
}

// TestWorkersEnd: workers end with the Calls that they wait for, or if there are too
// many.
func TestWorkersEnd(t *testing.T) {
	const many = 50
	before := runtime.NumGoroutine()
	var all, made sync.WaitGroup
	made.Add(3 * many)
	release := make(chan struct{})
	for range many {
		c := New(never)
		for range 3 {
			all.Go(func() {
				if err := c.Do(func() { made.Done(); <-release }); err != nil {
					t.Error(err)
				}
			})
		}
	}
	made.Wait()
	close(release)
	all.Wait()
	await(t, "the workers end", func() bool {
		runtime.GC()
		return runtime.NumGoroutine() <= before
	})
}

// await waits for something that comes soon.
func await(t *testing.T, what string, come func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !come(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func BenchmarkDo(b *testing.B) {
	c := New(never)
	for b.Loop() {
		if err := c.Do(func() {}); err != nil {
			b.Fatal(err)
		}
	}
}
