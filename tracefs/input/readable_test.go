//go:build linux

package input

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReadableSignals: signals while a pipe has nothing to read are no pause of
// what comes in.
func TestReadableSignals(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid := os.Getpid(), unix.Gettid()
	failed := make(chan error, 1)
	go func() {
		for range 50 {
			if err := unix.Tgkill(pid, tid, unix.SIGURG); err != nil { // Go ignores it
				failed <- err
				return
			}
			time.Sleep(time.Millisecond)
		}
		_, err := w.Write([]byte("x"))
		failed <- err
	}()
	ready, err := readable(r, time.Minute)
	if !ready || err != nil {
		t.Errorf("readable = %v, %v after a signal", ready, err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}
