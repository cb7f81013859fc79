//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// labWhole are runs of programs without frame pointers. --save keeps what replay reads.
var labWhole = []struct{ name, command string }{
	{"tagged", "live --unwind=copy --format=json --save /mnt/tagged-saved -o /mnt/tagged -- $W/tagged 4 400"},
	{"tagged-text", "live --format=text --save /mnt/tagged-text-saved -o /mnt/tagged-text -- $W/tagged 4 150"},
	{"tagged-lossy", "live -b 8 --format=json -o /mnt/tagged-lossy -- $W/tagged 8 600"},
	{"waits", "live --format=json --save /mnt/waits-saved -o /mnt/waits -- $W/waits 100"},
	{"record", "record --save /mnt/record-saved -o /mnt/record -- $W/waits 60"},
	{"futex", "futex --live --json -- $W/waits 200 >/mnt/futex"},
}

func labWholeScript() string {
	var script strings.Builder
	for _, r := range labWhole {
		command := r.command
		if !strings.Contains(command, "-b 8 ") {
			command = strings.Replace(command, " -- ", " -b 8192 -- ", 1)
		}
		fmt.Fprintf(&script, "timeout 150 $W/ustack %s 2>/mnt/%s.err || echo %[2]s: failed with $? >>/mnt/failed\n", command, r.name)
	}
	return script.String()
}

// TestLabUnwinds boots both kernels with deferred stacks: waits of programs without frame
// pointers have whole stacks, with no wrong frame, and replay and a report have them, too.
func TestLabUnwinds(t *testing.T) {
	lab, work := needLab(t)
	needProgram(t, "g++")
	compileWaits(t, filepath.Join(work, "waits"))
	compileTagged(t, filepath.Join(work, "tagged"))
	for _, image := range []string{"hash", "inode"} {
		t.Run(image, func(t *testing.T) {
			out := lab.boot(t, work, image, "", labWholeScript())
			for _, r := range labWhole {
				if !strings.Contains(r.name, "lossy") {
					labNothingLost(t, out, r.name)
				}
			}
			truth := newLabTruth(t, work)
			for _, name := range []string{"tagged", "tagged-lossy"} {
				text := labOutput(t, out, name)
				c := truth.check(name, bytes.NewReader(text))
				t.Logf("%s: %v", name, c)
				if c.wrong+c.impossible > 0 || c.right == 0 {
					t.Errorf("%s: %v", name, c)
				}
				if name == "tagged" {
					checkReach(t, unwoundWaits(t, text))
				}
			}
			waits := labOutput(t, out, "waits")
			checkReach(t, unwoundWaits(t, waits))
			truth.chains(waits)
			for name, format := range map[string]string{"tagged": "json", "tagged-text": "text", "waits": "json"} {
				sameReplayed(t, labOutput(t, out, name), filepath.Join(out, name+"-saved"), format)
			}
			labReport(t, out)
		})
	}
}

func labOutput(t *testing.T, out, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// labNothingLost checks the messages of a run: all waits were unwound, and all agree with
// what the kernel says.
func labNothingLost(t *testing.T, out, name string) {
	t.Helper()
	messages := string(labOutput(t, out, name+".err"))
	t.Logf("%s:\n%s", name, messages)
	if !strings.Contains(messages, "waits unwound from copies of") || lostLine.MatchString(messages) || strings.Contains(messages, "not what was unwound") {
		t.Errorf("%s:\n%s", name, messages)
	}
}

// compileTagged compiles a C program without frame pointers.
func compileTagged(t *testing.T, program string) {
	t.Helper()
	needProgram(t, "gcc")
	compiler := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-rdynamic", "-pthread", "-Wl,--build-id=sha1",
		"-o", program, filepath.Join("testdata", "live", "tagged.c"))
	if text, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// labChains are how the functions of waits.cc call each other, the innermost first. At the end
// of a thread libstdc++ calls the destructor of its state: free(3) can wait for a lock of
// malloc then (arena_get2), as it is the first call of the thread.
var labChains = regexp.MustCompile(`^((hold_lock|wait_turn)( deep){2,7} work \S*_M_run\S*|_ZNSt6thread11_State_implI\S*D0Ev|main( _start)?)$`)

// chains holds whole stacks of waits.cc, as JSON, against the program.
func (l *labTruth) chains(text []byte) {
	l.t.Helper()
	program, n := filepath.Join(l.work, "waits"), 0
	for line := range bytes.Lines(text) {
		var e labEvent
		if err := json.Unmarshal(line, &e); err != nil {
			l.t.Fatal(err)
		}
		if len(e.Stack) == 0 || e.Stack[0].How == "" {
			continue
		}
		n++
		var names []string
		for i := range e.Stack {
			f := &e.Stack[i]
			if f.Path != program {
				continue
			}
			b, offset := l.file(f.Path), hexValue(l.t, f.Offset)
			addr, ok := b.address(offset - 1)
			if !ok || f.BuildID != b.buildID {
				l.t.Errorf("%s: frame %d: %+v", e.TS, i, *f)
				continue
			}
			names = append(names, b.function(addr))
		}
		if chain := strings.Join(names, " "); !labChains.MatchString(chain) {
			l.t.Errorf("%s: %q", e.TS, chain)
		}
	}
	if n < 100 {
		l.t.Errorf("only %d stacks were unwound", n)
	}
}

// labReport checks that a report has the stacks that live has unwound, and futex counts
// them.
func labReport(t *testing.T, out string) {
	t.Helper()
	bin, saved := ustackBinary(t), filepath.Join(out, "record-saved")
	live, err := replayed(t, bin, "--maps", filepath.Join(saved, savedSpacesFile), filepath.Join(saved, savedTraceFile))
	if err != nil {
		t.Fatal(err)
	}
	again, err := replayed(t, bin, filepath.Join(out, "record"))
	if err != nil {
		t.Fatal(err)
	}
	live, again = records(live), records(again)
	if !bytes.Equal(live, again) || !bytes.Contains(live, []byte(" end=root\n")) {
		t.Errorf("%d and %d bytes\n%s", len(live), len(again), firstDifference(live, again))
	}
	var report struct {
		Stacks struct{ Waits, Application, Root int }
	}
	if err := json.Unmarshal(labOutput(t, out, "futex"), &report); err != nil {
		t.Fatal(err)
	}
	if s := report.Stacks; s.Waits < 50 || s.Application*100 < 99*s.Waits || s.Root*100 < 95*s.Waits {
		t.Errorf("futex: %+v", s)
	}
}
