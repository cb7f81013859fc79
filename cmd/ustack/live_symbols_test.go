//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLiveSymbols: live --symbols names the functions of a program and their
// lines, and what was saved, replayed, gives the same.
func TestLiveSymbols(t *testing.T) {
	_, work := workload(t)
	bin := ustackBinary(t)
	dir := t.TempDir()
	saved, out := filepath.Join(dir, "saved"), filepath.Join(dir, "out")
	args := []string{"live", "-q", "--symbols", "-e", "syscalls:sys_enter_futex", "--format=json", "--save", saved, "-o", out, "--", work, "herd"}
	if text, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	live, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	again, err := exec.Command(bin, "replay", "-q", "--symbols", "--format=json", "--maps", filepath.Join(saved, savedSpacesFile), filepath.Join(saved, savedTraceFile)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(live) != string(again) {
		t.Error(firstDifference(live, again))
	}
	named, wrong := 0, 0
	truth := readBinary(t, work)
	for line := range strings.Lines(string(live)) {
		var record struct{ Stack []symbolFrame }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		for i, f := range record.Stack {
			if f.Path != work || f.NoFunction != "" {
				continue
			}
			at := symbolHex(t, f.Offset)
			if i > 0 && !f.Inferred {
				at--
			}
			addr, ok := truth.address(at)
			if want := truth.function(addr); !ok || f.Function != want {
				if wrong++; wrong < 5 {
					t.Errorf("%s %s: %q, want %q", f.Path, f.Offset, f.Function, want)
				}
			}
			named++
		}
	}
	if named == 0 {
		t.Error("no frame of the program has a name")
	}
	t.Logf("%d frames named", named)
}
