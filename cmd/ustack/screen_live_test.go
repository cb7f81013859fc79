//go:build linux && !device

package main

import (
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/terminaltest"
)

// TestFutexScreenLast: on a terminal a brief report is the last thing that is printed; what the
// trace was made of comes after the whole one, and where the output goes elsewhere.
func TestFutexScreenLast(t *testing.T) {
	needLive(t)
	pid := herds(t)
	for flag, want := range map[string]bool{"--pager=never": false, "-v": true} {
		cmd, person, tty := onTerminal(t, "futex", "--live", "--pager=never", flag, "-p", pid, "--duration", "1s")
		screen := terminaltest.Watch(t, person)
		startedOn(t, cmd)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", flag, err)
		}
		tty.Close()
		seen := screen.Rest()
		if !strings.Contains(seen, "Most: mutex") || strings.Contains(seen, " distinct files, ") != want {
			t.Errorf("%s: %q", flag, seen)
		}
	}
}
