package binary

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lateRings have nothing, and their reader never comes to know.
type lateRings struct{ Rings }

func (lateRings) CPUs() []int32 { return []int32{0} }
func (lateRings) Close() error  { return nil }

// priority returns the nice value of the calling thread.
func priority(t *testing.T) int {
	t.Helper()
	const zero = 20 // getpriority(2): the system call returns 20 less the value
	n, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
	if err != nil {
		t.Fatal(err)
	}
	return zero - n
}

// TestPreferred: of the threads of this process, the kernel prefers the one that empties
// buffers.
func TestPreferred(t *testing.T) {
	may := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		may <- unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice)
	}()
	if err := <-may; err != nil {
		t.Skipf("raising a priority: %v", err)
	}
	was := priority(t)
	empties := make(chan int, 1)
	rings := Grow(lateRings{}, GrowOptions{Every: time.Microsecond, Filling: func(int32) bool {
		select {
		case empties <- priority(t):
		default:
		}
		return false
	}})
	if got := <-empties; got != nice {
		t.Errorf("nice value %d, want %d", got, nice)
	}
	if err := rings.Close(); err != nil {
		t.Error(err)
	}
	if now := priority(t); now != was {
		t.Errorf("nice value of the reader: %d, was %d", now, was)
	}
}
