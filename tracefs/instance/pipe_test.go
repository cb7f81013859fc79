package instance

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/input"
)

// mark writes a marker into an instance.
func mark(t testing.TB, in *Instance, text string) {
	t.Helper()
	check(t, in.write("trace_marker", text+"\n"))
}

// pipe opens the pipe of an instance.
func pipe(t testing.TB, in *Instance) *Pipe {
	t.Helper()
	p, err := in.Pipe()
	check(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// background reads to the end and gives what came.
func background(p *Pipe) (text *bytes.Buffer, err *error, done chan struct{}) {
	text, err, done = new(bytes.Buffer), new(error), make(chan struct{})
	go func() {
		defer close(done)
		_, *err = io.Copy(text, p)
	}()
	return text, err, done
}

// TestLivePipe: what is traced comes out, after Stop to the last record, and
// then the end. It can be started again.
func TestLivePipe(t *testing.T) {
	in := configured(t, live(t))
	p := pipe(t, in)
	for _, round := range []string{"one", "two"} {
		check(t, in.Start())
		text, err, done := background(p)
		mark(t, in, "first of "+round)
		time.Sleep(20 * time.Millisecond) // so that it waits again: both ways are read
		for range 1000 {
			mark(t, in, "more of "+round)
		}
		mark(t, in, "last of "+round)
		check(t, in.Stop())
		soon(t, "reading", done)
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if *err != nil || len(lines) != 1002 || !strings.HasSuffix(lines[0], ": first of "+round) || !strings.HasSuffix(lines[1001], ": last of "+round) {
			t.Errorf("%s: %d lines, from %q to %q (%v)", round, len(lines), lines[0], lines[len(lines)-1], *err)
		}
	}
}

// TestLivePipeClose: closing ends a read that waits, on either side of Start.
func TestLivePipeClose(t *testing.T) {
	in := configured(t, live(t))
	for _, start := range []bool{false, true} {
		p := pipe(t, in)
		if start {
			check(t, in.Start())
		}
		_, err, done := background(p)
		time.Sleep(10 * time.Millisecond)
		check(t, p.Close())
		soon(t, "reading", done)
		if !errors.Is(*err, os.ErrClosed) {
			t.Errorf("error %v", *err)
		}
		if _, err := p.Read(make([]byte, 10)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("reading on: %v", err)
		}
		if ready, err := p.Wait(time.Hour); !ready || err != nil {
			t.Errorf("waiting on: %v, %v", ready, err)
		}
		check(t, p.Close())
	}
}

// TestLiveWait: a pipe with nothing is not ready, one with something or at its
// end is.
func TestLiveWait(t *testing.T) {
	in := configured(t, live(t))
	p := pipe(t, in)
	check(t, in.Start())
	ready := func(want bool, d time.Duration) {
		t.Helper()
		if got, err := p.Wait(d); got != want || err != nil {
			t.Errorf("ready: %v (%v), want %v", got, err, want)
		}
	}
	ready(false, time.Millisecond)
	ready(false, time.Nanosecond)
	mark(t, in, "x")
	ready(true, patience)
	b := make([]byte, 1<<16)
	if n, err := p.Read(b); err != nil || !strings.Contains(string(b[:n]), ": x\n") {
		t.Errorf("%q (%v)", b[:n], err)
	}
	ready(false, time.Millisecond)
	check(t, in.Stop())
	ready(true, patience)
	if n, err := p.Read(b); n != 0 || err != io.EOF {
		t.Errorf("%d bytes (%v) after the end", n, err)
	}
}

// TestLiveWaitSignals: signals do not end the wait.
func TestLiveWaitSignals(t *testing.T) {
	in := configured(t, live(t))
	p := pipe(t, in)
	check(t, in.Start())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid, marked := unix.Gettid(), make(chan struct{})
	go func() {
		defer close(marked)
		for range 50 {
			if err := unix.Tgkill(os.Getpid(), tid, unix.SIGURG); err != nil { // Go ignores it
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
		if err := in.write("trace_marker", "x\n"); err != nil {
			t.Error(err)
		}
	}()
	if ready, err := p.Wait(patience); !ready || err != nil {
		t.Errorf("ready: %v (%v) after a signal", ready, err)
	}
	<-marked
}

// TestLiveInput: the pipe as a source of records, with pauses.
func TestLiveInput(t *testing.T) {
	in := configured(t, live(t))
	p := pipe(t, in)
	trace := input.NewTrace([]*input.File{input.Live(p.Name(), p)}, input.Options{Events: true, Pause: time.Millisecond})
	check(t, in.Start())
	var b tracefs.Batch
	next := func(wantErr error) {
		t.Helper()
		if err := trace.Next(&b); err != wantErr {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
	}
	// An empty pipe is one that pauses, not one that blocks the caller.
	next(nil)
	if !b.Paused || len(b.Text) > 0 {
		t.Errorf("paused %v with %q", b.Paused, b.Text)
	}
	mark(t, in, "one")
	text := ""
	for !strings.Contains(text, ": one\n") {
		next(nil)
		text += string(b.Text)
	}
	mark(t, in, "two")
	check(t, in.Stop())
	for {
		err := trace.Next(&b)
		text += string(b.Text)
		if err == io.EOF {
			break
		}
		check(t, err)
	}
	if !strings.HasSuffix(text, ": two\n") || strings.Count(text, "\n") != 2 {
		t.Errorf("text %q", text)
	}
	check(t, trace.Close())
	check(t, in.Remove())
}

func TestNoPipe(t *testing.T) {
	in := create(t, fake(t))
	if _, err := in.Pipe(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), in.dir.path("trace_pipe")) {
		t.Errorf("error %v", err)
	}
}

// TestStopIdle: Stop ends a read that waits for something, whether or not
// switching tracing off wakes it up.
func TestStopIdle(t *testing.T) {
	in := create(t, fake(t))
	check(t, unix.Mkfifo(in.dir.path("trace_pipe"), 0o600))
	p := pipe(t, in)
	check(t, in.Start())
	_, err, done := background(p)
	time.Sleep(10 * time.Millisecond)
	check(t, in.Stop())
	soon(t, "reading", done)
	if *err != nil {
		t.Error(*err)
	}
}
