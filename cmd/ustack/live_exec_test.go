//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveExec: in the middle of an exec a process has the memory of the new
// program and the registers of the old one, whose addresses are no places in
// the new one.
func TestLiveExec(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	compile(t, a, "turns.c", "-static", "-no-pie")
	compile(t, b, "turns.c", "-static", "-no-pie", "-DPAD")
	const turns = 30
	r := traceLive(t, []string{"-e", "syscalls:sys_enter_execve", "-e", "kmem:kmalloc"}, a, a, b, fmt.Sprint(turns))
	of := make(map[string]string) // the program of each address that calls execve
	calls := 0
	for _, e := range r.events {
		if f := e.Stack[0]; e.Name == "sys_enter_execve" && (f.Path == a || f.Path == b) {
			if was, seen := of[f.Address]; seen && was != f.Path {
				t.Fatalf("%s is in %s and in %s", f.Address, f.Path, was)
			}
			of[f.Address] = f.Path
			calls++
		}
	}
	if calls != turns || len(of) != 2 {
		t.Fatalf("%d calls of execve at %v, want %d at 2 addresses", calls, of, turns)
	}
	between, wrong := 0, 0
	for _, e := range r.events {
		f := e.Stack[0]
		switch program := of[f.Address]; {
		case program == "":
		case f.Path == "":
			between++
		case f.Path != program:
			wrong++
		}
	}
	if between == 0 || wrong > 0 {
		t.Errorf("in the middle of an exec %d frames have no name, and %d that of another program; want some, and none", between, wrong)
	}
}
