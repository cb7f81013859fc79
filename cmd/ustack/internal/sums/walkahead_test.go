//go:build !device && (amd64 || arm64)

package sums

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/recorder"
	"ustack/filemap/blocked"
	"ustack/tracefs/bpffutex"
)

// deep waits below a frame that is larger than what is copied of stacks at first.
const deep = `
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static int wait_below(char c)
{
	char large[12000];
	memset(large, c, sizeof large);
	sleep(600);
	return large[c];
}
int main(void) { return wait_below(1); }
`

// runDeep runs that program, until it waits.
func runDeep(t *testing.T) (pid int) {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "deep.c"), filepath.Join(dir, "deep")
	if err := os.WriteFile(source, []byte(deep), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("gcc", "-O2", "-o", program, source).CombinedOutput(); err != nil {
		t.Skipf("gcc: %v\n%s", err, text)
	}
	cmd := exec.Command(program)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	reader := blocked.NewReader(blocked.Options{})
	for range 1000 {
		if s, err := reader.Read(cmd.Process.Pid, 64); err == nil && s.Call == unix.SYS_CLOCK_NANOSLEEP {
			return cmd.Process.Pid
		}
		time.Sleep(time.Millisecond)
	}
	t.Skip("its stack cannot be read")
	return 0
}

// TestAhead: before a run begins, the tables of the files of a stack are open, and as much is copied as
// it takes.
func TestAhead(t *testing.T) {
	pid := runDeep(t)
	s, minWait := simulating(t, newSimulated(time.Second), t.TempDir(), recorder.RingOptions{KeepSize: 64 << 20, MaxFiles: 1}, io.Discard)
	defer close(s.quit)
	c := new(copierOf)
	w, err := newWalks(s.files, nil, false, c)
	if err != nil {
		t.Fatal(err)
	}
	s.files.walks, s.copied, s.opt.PIDs = w, true, []int{pid}
	if err := s.begin(minWait); err != nil {
		t.Fatal(err)
	}
	p := s.files.program(&bpffutex.Futex{TGID: int32(pid)})
	if !slices.Equal(c.sizes, []uint32{2 * firstCopy}) || p.walked.copied != 2*firstCopy {
		t.Errorf("copies of %v bytes", c.sizes)
	}
	var known int
	for _, f := range p.walked.tables {
		if w.unwinder.Known(f.Key) {
			known++
		}
	}
	if known < 2 { // the program and libc
		t.Errorf("the tables of %d files are open", known)
	}
	if p.walked.runs != 0 {
		t.Error("what was found out about its code is taken for what the process runs")
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestAheadBounded: no more than so many threads are looked at, and none of another process or once
// the time is over.
func TestAheadBounded(t *testing.T) {
	w, c := walksOf(t)
	p, n := new(program), 0
	peek := func(int, int) (*blocked.Stack, error) {
		n++
		return nil, errors.New("it runs")
	}
	a := w.newAhead(peek)
	defer a.close()
	threads := make([]int, maxAheadThreads/2+1)
	a.program(p, 1, threads)
	if a.program(p, 2, threads); n != maxAheadThreads {
		t.Errorf("%d threads were looked at", n)
	}
	n, a.threads, a.until = 0, maxAheadThreads, time.Now()
	if a.program(p, 1, threads); n != 0 {
		t.Errorf("%d threads were looked at too late", n)
	}
	a.until = time.Now().Add(time.Hour)
	a.peek = func(int, int) (*blocked.Stack, error) { return &blocked.Stack{PID: 2}, nil }
	if a.thread(p, 1, 1) != 0 || len(c.sizes) != 0 {
		t.Errorf("the stack of another process: copies of %v bytes", c.sizes)
	}
}
