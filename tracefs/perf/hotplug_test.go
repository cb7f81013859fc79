package perf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ustack/tracefs"
)

// TestHotplugSeen: when a CPU was online without a ring, that is known at the next
// reading, whatever steps it took since the one before.
func TestHotplugSeen(t *testing.T) {
	const ms = tracefs.Time(1e6)
	sys := t.TempDir()
	file := filepath.Join(sys, OnlineFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	type step struct {
		at tracefs.Time // ms
		on bool
	}
	for _, c := range []struct {
		name string
		// steps until each reading, and whether CPU 1 is listed then.
		steps  []step
		reads  []tracefs.Time // ms
		listed []bool
		want   string // what of CPU 1 was unseen
	}{
		{"comes", []step{{100, true}}, []tracefs.Time{200}, []bool{true}, "came 100"},
		{"comes after its first step", []step{{100, true}}, []tracefs.Time{200, 300}, []bool{false, true}, "came 100"},
		{"comes and goes", []step{{100, true}, {150, false}}, []tracefs.Time{200}, []bool{false}, "passed 100"},
		{"comes back a second after it went, goes in between", []step{{100, false}, {1150, true}, {2300, false}},
			[]tracefs.Time{200, 900, 1200, 2350}, []bool{false, false, false, false}, "passed 1150"},
		{"comes back and stays", []step{{100, false}, {1050, true}}, []tracefs.Time{200, 1060, 1300}, []bool{false, false, true}, "came 1050"},
		{"never gets ready", []step{{100, true}}, []tracefs.Time{200, 1150}, []bool{false, false}, "passed 100"},
		{"goes", []step{{100, false}}, []tracefs.Time{200, 1300}, []bool{false, false}, ""},
		{"comes unseen", nil, []tracefs.Time{900, 1100, 2200}, []bool{false, false, true}, "came 1100"},
	} {
		h := NewHotplug(sys, 0)
		var got string
		for i, now := range c.reads {
			list := "0\n"
			if c.listed[i] {
				list = "0-1\n"
			}
			if err := os.WriteFile(file, []byte(list), 0o644); err != nil {
				t.Fatal(err)
			}
			for len(c.steps) > 0 && c.steps[0].at <= now {
				h.Step(1, c.steps[0].on, c.steps[0].at*ms)
				c.steps = c.steps[1:]
			}
			cpus := h.Online(now * ms)
			if cpus == nil {
				continue
			}
			h.Passed(now*ms, cpus, []int{0}, func(cpu int, since tracefs.Time) { got += fmt.Sprintf("passed %d", since/ms) })
			h.Closed()
			if slices.Contains(cpus, 1) {
				since := h.Came(1)
				got += fmt.Sprintf("came %d", since/ms)
				h.Opened(1)
			}
			h.Done(now * ms)
		}
		if got != c.want {
			t.Errorf("a CPU that %s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestHotplugFailed: a CPU whose ring cannot be opened is listed at each reading, and what it
// did since the last one is missing, also if it has gone when its ring is tried again.
func TestHotplugFailed(t *testing.T) {
	sys := t.TempDir()
	file := filepath.Join(sys, OnlineFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("0\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	h := NewHotplug(sys, 0)
	h.Step(1, true, 10)
	if since := h.Came(1); since != 10 || h.Failed(1, 30) || !h.Failed(1, 40) {
		t.Errorf("since %d, or counted otherwise than once", since)
	}
	h.Done(40)
	if since := h.Came(1); since != 40 {
		t.Errorf("again: since %d", since)
	}
	cpus, missed := h.Online(50), tracefs.Time(0)
	h.Passed(50, cpus, []int{0}, func(_ int, since tracefs.Time) { missed = since })
	if cpus == nil || missed != 40 {
		t.Errorf("CPUs %v, missed since %d", cpus, missed)
	}
}
