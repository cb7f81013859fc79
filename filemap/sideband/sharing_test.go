package sideband

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/filemap/procmap"
)

// TestSharing: what a process maps and unmaps, those have that share its memory,
// whether it was made before they were followed or after; one that ends leaves the
// others theirs.
func TestSharing(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	program := filepath.Join(t.TempDir(), "share")
	if text, err := exec.Command(gcc, "-w", "-o", program, "testdata/share.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, before := range []bool{true, false} {
		cmd := exec.Command(program)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		start := func() (first, second int) {
			if err = cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fscanln(out, &first, &second); err != nil {
				t.Fatal(err)
			}
			return first, second
		}
		var b *Band
		var pids [2]int
		if before {
			pids[0], pids[1] = start()
			b, _ = openBand(t, Options{})
		} else {
			b, _ = openBand(t, Options{})
			pids[0], pids[1] = start()
		}
		lines := bufio.NewReader(out)
		step := func() (addr uint64) {
			if _, err := fmt.Fprintln(in); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fscanln(lines, &addr); err != nil {
				t.Fatal(err)
			}
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
		for _, pid := range pids {
			check("mapped", pid, addr, true)
		}
		step()
		for _, pid := range pids {
			check("unmapped", pid, addr, false)
			check("unmapped", pid, addr+page, true)
		}
		step()
		check("alone", pids[0], addr+page, true)
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnsharing: a process whose exec was lost has not what those map that shared
// their memory with it; those of them that still do keep theirs.
func TestUnsharing(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	program := filepath.Join(t.TempDir(), "share")
	if text, err := exec.Command(gcc, "-w", "-o", program, "testdata/share.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var first, second int
	if _, err := fmt.Fscanln(out, &first, &second); err != nil {
		t.Fatal(err)
	}
	other := startHelper(t, "idle").cmd.Process.Pid
	b, r := openBand(t, Options{})
	b.History.shared(first, other, b.Now())
	b.History.shared(first, second, b.Now())
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	if b.shares(first, other) || !b.shares(first, second) {
		t.Errorf("after a refresh: %v shares memory with %d, %v with %d", b.shares(first, other), other, b.shares(first, second), second)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
}
