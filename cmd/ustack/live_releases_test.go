//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// wakes are the arguments of calls that let others go on.
var wakes = regexp.MustCompile(`op: (0x)?(1|81|a|8a|5|85|3|83|4|84),`)

// releasesOf are the JSON lines of calls that let others go on, and how many of them have
// frames that ustack has found.
func releasesOf(t *testing.T, text []byte) (lines []byte, all, whole int) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var e labEvent
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if !wakes.MatchString(e.Args) || len(e.Stack) == 0 {
			continue
		}
		lines = append(lines, line...)
		all++
		if e.Stack[0].How != "" {
			whole++
		}
	}
	return lines, all, whole
}

// liveReleases runs a program under live, and holds what replay makes of what was saved
// against it.
func liveReleases(t *testing.T, flags []string, command ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	saved, out := filepath.Join(dir, "saved"), filepath.Join(dir, "out")
	args := append([]string{"live", "--format", "json", "--save", saved, "-o", out}, flags...)
	text, err := exec.Command(ustackBinary(t), append(append(args, "--"), command...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Logf("%s", text)
	live, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	sameReplayed(t, live, saved, "json")
	return live
}

// TestLiveReleases: stacks of calls that wake others belong to these calls, which say by
// which functions they came, be they few, far more than are unwound, or some of them lost.
func TestLiveReleases(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	work := t.TempDir()
	tagged := filepath.Join(work, "tagged")
	compileTagged(t, tagged)
	for _, test := range []struct {
		name    string
		flags   []string
		command []string
		least   int // of a hundred releases, how many have a whole stack on a machine that is busy with others
		some    bool
		tries   int
	}{
		{"few", []string{"-b", "8192"}, []string{tagged, "4", "400", "10", "3"}, 30, false, 1},
		{"copy", []string{"-b", "8192", "--unwind=copy"}, []string{tagged, "4", "400", "10", "3"}, 30, false, 1},
		{"many", []string{"-b", "32768"}, []string{tagged, "2", "100000", "1", "500"}, 0, true, 1},
		{"lossy", []string{"-b", "8"}, []string{tagged, "8", "20000", "1", "50"}, 0, false, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all, whole int
			var c *labCounts
			// Of a program that wakes without end, all copies can be lost: then nothing was tried.
			for range test.tries {
				var lines []byte
				lines, all, whole = releasesOf(t, liveReleases(t, test.flags, test.command...))
				c = newLabTruth(t, work).check(test.name, bytes.NewReader(lines))
				t.Logf("%d of %d releases are whole: %v", whole, all, c)
				if c.right+c.wrong+c.impossible > 0 {
					break
				}
			}
			if c.wrong+c.impossible > 0 || c.right == 0 || whole*100 < test.least*all || test.some && whole*2 > all {
				t.Errorf("%d of %d releases are whole: %v", whole, all, c)
			}
		})
	}
}

// TestLiveReleasesLocks: the release of a mutex has the function that held it, and with
// --unwind=fp only the C library.
func TestLiveReleasesLocks(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	work := t.TempDir()
	waits := filepath.Join(work, "waits")
	compileWaits(t, waits)
	lines, all, whole := releasesOf(t, liveReleases(t, []string{"-b", "8192"}, waits, "300"))
	if all < 100 || whole*100 < 70*all {
		t.Errorf("%d of %d releases are whole", whole, all)
	}
	newLabTruth(t, work).chains(lines)
	if _, all, whole := releasesOf(t, liveReleases(t, []string{"-b", "8192", "--unwind=fp"}, waits, "300")); all < 100 || whole > 0 {
		t.Errorf("--unwind=fp: %d of %d releases are whole", whole, all)
	}
	text, err := exec.Command(ustackBinary(t), "futex", "--live", "-q", "-b", "8192", "--", waits, "300").Output()
	if err != nil || !strings.Contains(string(text), "Releases: of ") {
		t.Errorf("%v\n%s", err, text)
	}
}
