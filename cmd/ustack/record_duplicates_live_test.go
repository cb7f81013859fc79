//go:build linux

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestRecordDuplicates: of two long waits at the same place the second one is counted, by another
// recorder, too, and the next report says how many there were.
func TestRecordDuplicates(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin, dir := ustackBinary(t), t.TempDir()
	run := func(name string, more ...string) (text []byte, said string) {
		t.Helper()
		report := filepath.Join(dir, name)
		args := append([]string{"record", "--ring", "--keep", "2s", "--trigger", "futex-wait>150ms", "--after", "100ms", "--cool-down", "0s", "--budget", "9/day", "-o", report}, more...)
		out, err := exec.Command(bin, append(args, "--", work, "hiccups", "3")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if names, _ := filepath.Glob(report); len(names) == 0 {
			return nil, string(out)
		}
		text, err = replayed(t, bin, report)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return text, string(out)
	}
	text, said := run("first")
	if text == nil || bytes.Contains(text, []byte("# ustack: duplicates=")) || strings.Count(said, ": wrote ") != 1 {
		t.Fatalf("the first report: %.1000s\n%s", text, said)
	}
	if text, said = run("second"); text != nil {
		t.Fatalf("the same cause has another report: %.1000s\n%s", text, said)
	}
	text, said = run("third", "--duplicates=write")
	at := bytes.Index(text, []byte("# ustack: duplicates="))
	if at < 0 || strings.Count(said, ": wrote ") < 2 {
		t.Fatalf("the third report: %.1000s\n%s", text, said)
	}
	t.Logf("%.40s", text[at:])
}
