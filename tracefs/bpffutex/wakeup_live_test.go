//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestWake: a reader that waits is woken, and one that is about to wait, once.
func TestWake(t *testing.T) {
	needBPF(t)
	s, err := Open(Options{Filtered: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test of what stays is another one
	var w Wait
	returns := func(what string) {
		t.Helper()
		until := time.Now().Add(time.Minute)
		if err := s.Next(&w, until); err != io.EOF || !time.Now().Before(until) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Wake(); err != nil {
		t.Fatal(err)
	}
	returns("before")
	woken := make(chan error)
	time.AfterFunc(50*time.Millisecond, func() { woken <- s.Wake() })
	returns("meanwhile")
	if err := <-woken; err != nil { // else it may wake the next one, too
		t.Fatal(err)
	}
	until := time.Now().Add(50 * time.Millisecond)
	if err := s.Next(&w, until); err != io.EOF || time.Now().Before(until) {
		t.Errorf("not woken: %v", err)
	}
}

// TestLiveFirst: the first long wait at a futex wakes the reader, who would look much later. Its
// program may be one that ends soon.
func TestLiveFirst(t *testing.T) {
	needBPF(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Filtered: true, MinWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test of what stays is another one
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprintf("%s=1 1 %v", victim, longTimeout)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // only its waits count
	defer in.Close()
	if err := errors.Join(s.Add(cmd.Process.Pid, Many), s.Start()); err != nil {
		t.Fatal(err)
	}
	const begins = 200 * time.Millisecond
	time.AfterFunc(begins, func() { _, _ = io.WriteString(in, "\n") })
	var w Wait
	until := time.Now().Add(time.Minute)
	if err := s.Next(&w, until); err != nil || int(w.TGID) != cmd.Process.Pid || !time.Now().Before(until) {
		t.Errorf("%+v, %v: looked at only when it was time to", w, err)
	}
}
