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
		"-p 1":                           "-p 1",
		"-p=1 --no-owners":               "-p=1 --owners=false",
		"-q -p 1,2 -p 3":                 "-q -p 1,2 -p 3",
		"-q 1234 --no-symbols":           "-q -p 1234 --symbols=false",
		"--no-owners -v " + own + " -q":  "--owners=false -v -p " + pids.Exact(own) + " -q",
		"--duration 1s 1234":             "--duration 1s -p 1234",
		"--duration=1s 1234":             "--duration=1s -p 1234",
		"--duration 1234":                "",
		"--help":                         "",
		"-q " + own + "x":                "",
		"-o x -- make -q":                "-o x -- make -q",
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

// TestWelcome: ten lines, which fit on any terminal.
func TestWelcome(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(front.Welcome, "\n"), "\n")
	if len(lines) > 10 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("over 80 columns: %q", line)
		}
	}
}
