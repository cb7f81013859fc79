//go:build linux

package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

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
	compileHolder(t, program, "holder.c")
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

// compileHolder compiles a program whose threads are blocked while they hold a lock.
func compileHolder(t *testing.T, program, source string) {
	t.Helper()
	compiler := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread", "-Wl,--build-id=sha1",
		"-o", program, filepath.Join("testdata", "live", source))
	if text, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestFutexLiveKinds: whatever blocks the owner of a lock has a name without events of
// system calls: the function that made the call, or that a page fault interrupted, or the
// other futex.
func TestFutexLiveKinds(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "gcc")
	dir := t.TempDir()
	program := filepath.Join(dir, "kinds")
	compileHolder(t, program, "kinds.c")
	for _, kind := range []struct {
		name string
		disk bool
		what []string // and at which functions, if it is no futex
		at   []string
	}{
		{"sleep", false, []string{"unknown call"}, []string{"clock_nanosleep", "__clock_nanosleep", "nanosleep"}},
		{"sync", true, []string{"I/O (state D)", "unknown call"}, []string{"fdatasync", "pwrite", "pwrite64", "__libc_pwrite64", "__libc_pwrite"}},
		{"read", false, []string{"unknown call"}, []string{"read", "__libc_read"}},
		{"poll", false, []string{"unknown call"}, []string{"poll", "__poll"}},
		{"fault", true, []string{"I/O (state D)"}, []string{"hold_fault"}},
		{"futex", false, []string{"futex"}, nil},
	} {
		t.Run(kind.name, func(t *testing.T) {
			if kind.disk && inMemory(t, dir) {
				t.Skip("files of temporary directories are in memory only")
			}
			out, err := exec.Command(ustackBinary(t), "futex", "--live", "-q", "--symbols", "--json", "--", program, kind.name, filepath.Join(dir, "file"), "60").Output()
			if err != nil {
				t.Fatal(err)
			}
			var named, all int64
			for _, on := range blockedOn(t, out) {
				all += on.Time
				switch {
				case on.At != nil && slices.Contains(kind.at, on.At.Function) && slices.Contains(kind.what, on.What), kind.at == nil && on.What == "futex" && on.Kind == "semaphore":
					named += on.Time
				case on.At != nil && on.At.Function != "" && !slices.Contains(kind.at, on.At.Function):
					t.Errorf("%s at %s", on.What, on.At.Function)
				}
			}
			t.Logf("of %d ns for which the owners were blocked, %d by name", all, named)
			if all == 0 || named*10 < all*9 {
				t.Errorf("%s", out)
			}
		})
	}
}

// inMemory reports whether the files of a directory are on no disk.
func inMemory(t *testing.T, dir string) bool {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
}

// ownerBlocked is what the owner of a lock was blocked on while others waited.
type ownerBlocked struct {
	What string
	Kind string
	Time int64 `json:"total_ns"`
	At   *struct{ Function string }
}

// blockedOn returns that of the first lock of a report.
func blockedOn(t *testing.T, document []byte) []ownerBlocked {
	t.Helper()
	var r struct {
		Locks []struct {
			Split struct {
				On []ownerBlocked `json:"blocked_on"`
			}
		}
	}
	if err := json.Unmarshal(document, &r); err != nil || len(r.Locks) == 0 {
		t.Fatalf("%v\n%s", err, document)
	}
	return r.Locks[0].Split.On
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
