//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// wholeRow is a row of the JSON report of wait, by stack.
type wholeRow struct {
	Waits int64
	Sites []struct {
		Stack []struct{ Function, Path, Trust string }
	}
	Threads []struct{ Comm string }
}

// TestWaitWhole: waits in calls of the C library have the functions of the program that call it,
// though the kernel's stacks end there; and none has the functions of another thread.
func TestWaitWhole(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "sleepers")
	compile(t, program, "sleepers.c", "-fomit-frame-pointer")
	const rounds = 100
	for how, want := range map[string]bool{"auto": true, "blocked": true, "fp": false} {
		cmd := exec.Command(ustackBinary(t), "wait", "--unwind="+how, "--symbols", "--json", "--top", "0", "--", program, fmt.Sprint(rounds))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", how, err, &stderr)
		}
		var r struct{ Rows []wholeRow }
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%s: %v\n%s", how, err, out)
		}
		whole := make(map[string]int64)
		for i := range r.Rows {
			if err := countWhole(&r.Rows[i], program, whole); err != nil {
				t.Errorf("%s: %v", how, err)
			}
		}
		for _, name := range []string{"nap", "pull", "look", "push"} {
			if got := whole[name] >= rounds/10; got != want {
				t.Errorf("%s: %d waits of %s have its functions, of %d\n%s", how, whole[name], name, rounds, &stderr)
			}
		}
		t.Logf("%s: %v", how, whole)
	}
}

// countWhole counts the waits of a row by the thread whose functions its stack has.
func countWhole(row *wholeRow, program string, whole map[string]int64) error {
	for i := range row.Sites {
		stack := row.Sites[i].Stack
		for k, f := range stack {
			name, inner := strings.CutSuffix(f.Function, "_inner")
			if f.Path != program || !inner {
				continue
			}
			if k == 0 || k+2 >= len(stack) || stack[k+1].Function != name+"_outer" || stack[k+2].Function != name || f.Trust != "verified" {
				return fmt.Errorf("the stack is %v", stack)
			}
			if slices.ContainsFunc(row.Threads, func(th struct{ Comm string }) bool { return th.Comm != name }) {
				return fmt.Errorf("threads %v wait in %v", row.Threads, stack)
			}
			whole[name] += row.Waits
		}
	}
	return nil
}
