//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/text"
)

// TestRecordPlaces: a report names locks in the data of a program and of a library that it
// opens, and the program, when these have gone from where they were and nothing runs any more.
// Of files without symbols locks have the file, and their address there. A ring has the same.
func TestRecordPlaces(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "strip")
	for _, flags := range [][]string{{"-fPIE", "-pie"}, {"-fno-pie", "-no-pie"}} {
		for _, ring := range [][]string{nil, {"--ring", "--keep", "30s"}} {
			t.Run(fmt.Sprint(flags, ring), func(t *testing.T) {
				program, library := buildLocks(t, flags...)
				name := filepath.Join(t.TempDir(), "report.zst")
				_, locks := tracedLocks(t, time.Second, append([]string{"record", "-q", "-o", name}, ring...), program, library)
				root := t.TempDir()
				for _, file := range []string{program, library} {
					moveInto(t, root, file)
				}
				futex := func(args ...string) []byte {
					t.Helper()
					out, err := exec.Command(ustackBinary(t), append(append([]string{"futex", "-q"}, args...), name)...).Output()
					if err != nil {
						t.Fatal(err)
					}
					return out
				}
				checkLocks(t, futex("--json", "--top", "0", "--symbols", "--sysroot", root), locks, program, library, "verified")
				if out := futex("-v"); !bytes.Contains(out, []byte(" in locks, process ")) {
					t.Errorf("no name of the program:\n%s", out)
				}
				for _, file := range []string{program, library} {
					if out, err := exec.Command("strip", filepath.Join(root, file)).CombinedOutput(); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
				}
				out := string(futex("-v", "--top", "0", "--by", "lock", "--symbols", "--sysroot", root))
				for _, l := range locks {
					want := map[bool]string{false: "locks+0x", true: "liblocks.so+0x"}[strings.HasPrefix(l.name, "library") || strings.HasPrefix(l.name, "table")]
					if at := strings.Index(out, "("+l.address+")"); at < 0 != (l.name == "-") || at > 0 && !strings.Contains(out[max(0, at-40):at], " "+want) {
						t.Errorf("%v is not at %s:\n%s", l, want, out)
					}
				}
			})
		}
	}
}

// moveInto moves a file to the same path below another root.
func moveInto(t *testing.T, root, file string) {
	t.Helper()
	to := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, to); err != nil {
		t.Fatal(err)
	}
}

// TestRecordPlacesRedacted: a redacted report does not say where locks are, whether it is recorded
// so or redacted later.
func TestRecordPlacesRedacted(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program, library := buildLocks(t)
	dir := t.TempDir()
	whole, redacted, recorded := filepath.Join(dir, "whole.zst"), filepath.Join(dir, "redacted.zst"), filepath.Join(dir, "recorded.zst")
	tracedLocks(t, 0, []string{"record", "-q", "-o", whole}, program, library)
	tracedLocks(t, 0, []string{"record", "-q", "--redact", "-o", recorded}, program, library)
	bin := ustackBinary(t)
	if out, err := exec.Command(bin, "redact", "-q", "-o", redacted, whole).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(capturetest.Read(t, whole), []byte("\n"+text.PlaceMark)) {
		t.Error("the whole report has no places")
	}
	for _, name := range []string{redacted, recorded} {
		if got := capturetest.Read(t, name); bytes.Contains(got, []byte(text.PlaceMark)) || bytes.Contains(got, []byte("locks")) {
			t.Errorf("%s has places, or names", name)
		}
		if out, err := exec.Command(bin, "check-redaction", name).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
