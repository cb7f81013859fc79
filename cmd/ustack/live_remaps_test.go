//go:build linux

package main

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

var remaps = flag.Int("remaps", 600, "how often the program of TestLiveRemaps has another file at an address")

// remapTag is what getpgid is called with by the code of file 0 (testdata/live/remaps).
const remapTag = 70_000_000

var remapTagged = regexp.MustCompile(`pid: (?:0x)?([0-9a-f]+)`)

// TestLiveRemaps: where files replace each other at an address all the time, no frame has the
// name of another one than was there, whether perf reports mappings or processes are asked.
func TestLiveRemaps(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "remaps")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./testdata/live/remaps").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, way := range []string{"perf", "query"} {
		t.Run(way, func(t *testing.T) {
			flags := []string{"--mappings=" + way, "-e", fmt.Sprintf("syscalls:sys_enter_getpgid/pid >= %d/", remapTag)}
			r := traceLive(t, flags, program, dir, strconv.Itoa(*remaps), "4")
			if r.code != 0 {
				t.Fatalf("code %d\n%s", r.code, r.stderr)
			}
			var n remapCount
			for i := range r.events {
				n.event(t, program, dir, &r.events[i])
			}
			t.Logf("%d events: %d frames with a name, %d of them wrong; of the files that are replaced %d with, %d without\n%s",
				len(r.events), n.named, n.wrong, n.right, n.nameless, r.stderr)
			if n.wrong > 0 {
				t.Errorf("%d of %d names are wrong", n.wrong, n.named)
			}
			if len(r.events) < *remaps || n.named == 0 {
				t.Errorf("%d events, %d names: too few to show anything", len(r.events), n.named)
			}
		})
	}
}

// remapCount counts names.
type remapCount struct{ named, wrong, right, nameless int }

// event checks the names of a stack: the innermost frame is in the file of the tag, the others
// are in the program itself.
func (n *remapCount) event(t *testing.T, program, dir string, e *liveEvent) {
	t.Helper()
	m := remapTagged.FindStringSubmatch(e.Args)
	if m == nil {
		return // its event is lost
	}
	want := filepath.Join(dir, fmt.Sprintf("code%d", hexValue(t, m[1])-remapTag))
	for k, f := range e.Stack {
		in := program
		if k == 0 {
			in = want
		}
		switch {
		case f.Path == "" && k == 0:
			n.nameless++
		case f.Path == "":
		case f.Path != in && !strings.HasPrefix(f.Memory, "["):
			n.wrong++
			n.named++
			if n.wrong <= 5 {
				t.Errorf("frame %d at %s is %s, %s, want %s", k, e.TS, f.Path, f.Trust, in)
			}
		default:
			n.named++
			if k == 0 {
				n.right++
			}
		}
	}
}
