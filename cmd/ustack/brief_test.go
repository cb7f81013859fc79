package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"ustack/render/brief"
	"ustack/tracefs/capturetest"
)

// TestBrief: the reports of all captures fit onto a screen, and begin with the answer. By
// default it reads every eighth one.
func TestBrief(t *testing.T) {
	traces, err := filepath.Glob("../../testdata/captures/*/*/trace.txt.zst")
	if err != nil || len(traces) < 40 {
		t.Fatalf("%d captures: %v", len(traces), err)
	}
	each := 1
	if capturetest.Brief() {
		each = 8
	}
	for i := 0; i < len(traces); i += each {
		args := [][]string{{"futex", "-q", traces[i]}, {"wait", "-q", traces[i]}}
		dump := filepath.Join(filepath.Dir(traces[i]), "maps.tar.zst")
		if _, err := os.Stat(dump); err == nil {
			args = append(args, []string{"futex", "-q", "--maps", dump, traces[i]}, []string{"wait", "-q", "--maps", dump, traces[i]})
		}
		for _, list := range args {
			var out, errs bytes.Buffer
			code := run(list, strings.NewReader(""), &out, &errs)
			if strings.Contains(errs.String(), "cannot be used") {
				continue // it has no stacks
			}
			if code != exitOK {
				t.Fatalf("%v: exit code %d: %s", list, code, errs.String())
			}
			checkScreen(t, list, out.String())
		}
	}
}

// checkScreen checks a text by what a screen has room for.
func checkScreen(t *testing.T, what []string, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > brief.Lines {
		t.Errorf("%v: %d lines\n%s", what, len(lines), text)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > brief.Width {
			t.Errorf("%v: %d columns: %s", what, utf8.RuneCountInString(line), line)
		}
	}
	for _, begin := range []string{"No lock contention", "No report", "Deadlock", "Dead owner", "Lost wakeup"} {
		if strings.HasPrefix(lines[0], begin) {
			return
		}
	}
	if !strings.Contains(lines[0], "waited for") && !strings.Contains(lines[0], "of waiting in") {
		t.Errorf("%v begins with %q", what, lines[0])
	}
}
