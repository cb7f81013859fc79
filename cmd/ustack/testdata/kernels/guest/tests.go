package main

import (
	"os"
	"os/exec"
	"strings"
)

// tests are tests of packages that need what only some kernels have. lab has put
// each package's test program on the disk.
var tests = []struct{ program, name string }{
	{"/disk/sideband.test", "TestInt80"},
	{"/disk/sideband.test", "TestX32"},
}

// tryTests runs them, and reports passes and skips with their reason.
func tryTests() {
	for _, t := range tests {
		if _, err := os.Stat(t.program); err != nil {
			say("no %s", t.program)
			continue
		}
		out, err := exec.Command(t.program, "-test.v", "-test.run", "^"+t.name+"$").CombinedOutput()
		verdict := "passes"
		switch {
		case err != nil:
			verdict = "FAIL"
		case strings.Contains(string(out), "--- SKIP"):
			verdict = "is skipped"
		}
		say("%s %s", t.name, verdict)
		if verdict != "passes" {
			say("%s", strings.TrimSpace(string(out)))
		}
	}
}
