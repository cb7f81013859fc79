//go:build linux

package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestFutexLiveSleeps: where the holder of a lock sleeps is in the report down to the root,
// although the C library keeps no frame pointers: live, and in a report.
func TestFutexLiveSleeps(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "gcc")
	dir := t.TempDir()
	program, report := filepath.Join(dir, "holder"), filepath.Join(dir, "report.zst")
	compiler := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread", "-Wl,--build-id=sha1",
		"-o", program, filepath.Join("testdata", "live", "holder.c"))
	if text, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	bin := ustackBinary(t)
	out := func(args ...string) []byte {
		t.Helper()
		text, err := exec.Command(bin, args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	holderSleeps(t, out("futex", "--live", "-q", "--symbols", "--json", "--", program))
	out("record", "-q", "-o", report, "--", program)
	holderSleeps(t, out("futex", "-q", "--symbols", "--json", report))
}

// holderSleeps checks where the holder of holder.c sleeps.
func holderSleeps(t *testing.T, document []byte) {
	t.Helper()
	type frame struct {
		Function string `json:"function"`
	}
	var r struct {
		Locks []struct {
			Holds struct {
				Stacks []struct {
					Did   string  `json:"did"`
					Time  int64   `json:"total_ns"`
					Stack []frame `json:"stack"`
				} `json:"stacks"`
			} `json:"holds"`
			Split struct {
				On []struct {
					At   *frame `json:"at"`
					Time int64  `json:"total_ns"`
				} `json:"blocked_on"`
			} `json:"split"`
		} `json:"locks"`
	}
	if err := json.Unmarshal(document, &r); err != nil || len(r.Locks) == 0 {
		t.Fatalf("%v\n%s", err, document)
	}
	var all, whole, named int64
	for _, s := range r.Locks[0].Holds.Stacks {
		if s.Did != "blocked" {
			continue
		}
		all += s.Time
		var names []string
		for _, f := range s.Stack {
			names = append(names, f.Function)
		}
		at := slices.Index(names, "work")
		if at >= 0 && at+2 < len(names) && names[at+1] == "critical" && names[at+2] == "thread" {
			whole += s.Time
		} else if len(names) > 1 && names[1] != "" { // the kernel's own may go on with what is no code
			t.Errorf("a stack of %q", names)
		}
	}
	var asleep int64
	for _, on := range r.Locks[0].Split.On {
		asleep += on.Time
		if on.At != nil && (on.At.Function == "clock_nanosleep" || on.At.Function == "nanosleep" || on.At.Function == "__clock_nanosleep") {
			named += on.Time
		}
	}
	t.Logf("of %d ns that holders slept, %d with their callers; of %d ns of waits for that, %d by name", all, whole, asleep, named)
	if all == 0 || whole*2 < all || named*10 < asleep*9 {
		t.Errorf("%s", document)
	}
}
