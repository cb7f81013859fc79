package sideband

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// buildShare compiles testdata/share.c: two processes that share their memory.
func buildShare(t *testing.T) (program string) { return buildPair(t, "share.c") }

// buildPair compiles a program of two processes in testdata.
func buildPair(t *testing.T, source string) (program string) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	program = filepath.Join(t.TempDir(), "pair")
	if text, err := exec.Command(gcc, "-w", "-pthread", "-o", program, filepath.Join("testdata", source)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return program
}

// shareProgram is a running program of two processes, which prints their PIDs.
type shareProgram struct {
	pids [2]int
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

func startShare(t *testing.T, program string) *shareProgram {
	t.Helper()
	s := &shareProgram{cmd: exec.Command(program)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(s.out, &s.pids[0], &s.pids[1]); err != nil {
		t.Fatal(err)
	}
	return s
}

// step has the program do its next step, and returns the address it prints.
func (s *shareProgram) step(t *testing.T) (addr uint64) {
	t.Helper()
	if _, err := fmt.Fprintln(s.in); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(s.out, &addr); err != nil {
		t.Fatal(err)
	}
	return addr
}

func (s *shareProgram) end(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.in.Close(), s.cmd.Wait()); err != nil {
		t.Fatal(err)
	}
}

// TestSharing: what a process maps and unmaps, those have that share its memory,
// whether it was made before they were followed or after; one that ends leaves the
// others theirs.
func TestSharing(t *testing.T) {
	program := buildShare(t)
	for _, before := range []bool{true, false} {
		var b *Band
		var s *shareProgram
		if before {
			s = startShare(t, program)
			b, _ = openBand(t, Options{})
		} else {
			b, _ = openBand(t, Options{})
			s = startShare(t, program)
		}
		step := func() (addr uint64) {
			addr = s.step(t)
			drain(t, b)
			return addr
		}
		check := func(what string, pid int, addr uint64, want bool) {
			t.Helper()
			p, ok := b.History.Lookup(pid, addr, b.Now())
			if ok != want || ok && (p.Late || p.Mapping.File.Kind != procmap.Anonymous) {
				t.Errorf("before %v, %s: %#x of process %d is %+v, %v", before, what, addr, pid, p, ok)
			}
		}
		addr := step()
		for _, pid := range s.pids {
			check("mapped", pid, addr, true)
		}
		step()
		for _, pid := range s.pids {
			check("unmapped", pid, addr, false)
			check("unmapped", pid, addr+page, true)
		}
		step()
		check("alone", s.pids[0], addr+page, true)
		s.end(t)
	}
}

// TestUnsharing: a process whose exec was lost has not what those map that shared
// their memory with it; those of them that still do keep theirs.
func TestUnsharing(t *testing.T) {
	s := startShare(t, buildShare(t))
	first, second := s.pids[0], s.pids[1]
	other := startHelper(t, "idle").cmd.Process.Pid
	b, r := openBand(t, Options{})
	b.History.shared(first, other, b.Now())
	b.History.shared(first, second, b.Now())
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	if b.History.shares(first, other) || !b.History.shares(first, second) {
		t.Errorf("after a refresh: %v shares memory with %d, %v with %d", b.History.shares(first, other), other, b.History.shares(first, second), second)
	}
	s.end(t)
}

// TestSharedMeanwhile: a process that shares its memory has what other threads change until that
// is reported, after it was made.
func TestSharedMeanwhile(t *testing.T) {
	b, s := newSteps()
	s.code(parent, parent, codeAt)
	s.fork(sharer, parent)
	s.calls(unmapping, parent, other, codeAt, codeSize)
	s.code(parent, other, codeAt+8*page)
	s.shares(parent)
	drain(t, b)
	now := tracefs.Time(s.t + 1)
	if p, ok := b.History.Lookup(sharer, codeAt, now); ok {
		t.Errorf("what was unmapped is there: %+v", p)
	}
	if _, ok := b.History.Lookup(sharer, codeAt+8*page, now); !ok {
		t.Error("what was mapped is not known")
	}
}

// TestCompareWithoutFirst: two processes whose first threads have ended do not share their memory
// for that.
func TestCompareWithoutFirst(t *testing.T) {
	s := startShare(t, buildPair(t, "nofirst.c"))
	defer s.end(t)
	first, second := s.pids[0], s.pids[1]
	for hasMemory("/proc", first) || hasMemory("/proc", second) { // until their first threads have ended
		time.Sleep(time.Millisecond)
	}
	b, _ := openBand(t, Options{})
	for _, c := range []struct {
		p, q int
		same bool
	}{{first, second, false}, {second, first, false}, {first, first, true}} {
		if order, ok := b.compare(c.p, c.q); !ok || (order == 0) != c.same {
			t.Errorf("%+v: order %d, %t", c, order, ok)
		}
	}
}
