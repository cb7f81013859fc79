//go:build linux

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

var races = flag.Int("races", 1000, "how often the program of TestLiveRace unmaps a page while it maps it")

// TestLiveRace: code that a thread maps, or moves, to where another one is unmapping has no
// file if it has gone, whichever record came first; nor has code that was unmapped when records
// of that were lost. The process can be asked only later: code that is there may have no file.
func TestLiveRace(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir := t.TempDir()
	program, library := filepath.Join(dir, "race"), filepath.Join(dir, "library.so")
	compile(t, program, "race.c")
	if err := os.WriteFile(library, make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"mmap", "mremap", "loss"} {
		t.Run(way, func(t *testing.T) {
			r := traceLive(t, []string{"--unwind=fp", "-e", "syscalls:sys_enter_futex/op == 129/"}, program, way, library, strconv.Itoa(*races))
			if r.code != 0 {
				t.Fatalf("code %d\n%s", r.code, r.stderr)
			}
			var n raceCount
			for i := range r.events {
				n.event(&r.events[i], library)
			}
			t.Logf("%+v\n%s", n, r.stderr)
			if n.Wrong > 0 {
				t.Errorf("%d of %d frames where nothing is have a file", n.Wrong, n.Gone)
			}
			if n.There == 0 || n.Gone == 0 {
				t.Errorf("the code was there %d times, and %d times not: too few to show anything", n.There, n.Gone)
			}
		})
	}
}

// raceCount counts the calls of the program race: with the code there, of which Named have its
// file, and without, of which Wrong have it.
type raceCount struct{ There, Named, Gone, Wrong int }

func (n *raceCount) event(e *liveEvent, library string) {
	if e.Comm != "race" || len(e.Stack) == 0 {
		return
	}
	named := 0
	for _, f := range e.Stack {
		if f.Path == library {
			named = 1
		}
	}
	if strings.HasSuffix(e.Args, "val3: 1") || strings.HasSuffix(e.Args, "val3: 0x1") {
		n.There, n.Named = n.There+1, n.Named+named
	} else {
		n.Gone, n.Wrong = n.Gone+1, n.Wrong+named
	}
}
