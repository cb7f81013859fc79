package front_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/front"
	"ustack/cmd/ustack/internal/pids"
)

func TestArgs(t *testing.T) {
	own := filepath.Base(os.Args[0])
	for line, want := range map[string]string{
		"1234":                           "-p 1234",
		"1234 --duration 1s --no-owners": "-p 1234 --duration 1s --owners=false",
		"-- make --no-symbols":           "-- make --no-symbols",
		"--no-symbols -- make":           "--symbols=false -- make",
		own + " -q":                      "-p " + pids.Exact(own) + " -q",
		"":                               "",
		"-q":                             "",
		"-1":                             "",
		"0":                              "",
		own + "x":                        "",
	} {
		got, ok := front.Args(strings.Fields(line), "/proc")
		if want == "" {
			if ok {
				t.Errorf("%q is taken: %q", line, got)
			}
			continue
		}
		if want := strings.Fields("--live --symbols --owners " + want); !ok || !slices.Equal(got, want) {
			t.Errorf("%q is %q, %v, want %q", line, got, ok, want)
		}
	}
}

// TestWelcome: it fits on any terminal.
func TestWelcome(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(front.Welcome, "\n"), "\n")
	if len(lines) > 11 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("over 80 columns: %q", line)
		}
	}
}
