//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFutexLive: the answer of a trace that is made now.
func TestFutexLive(t *testing.T) {
	_, work := workload(t)
	cmd := exec.Command(ustackBinary(t), "futex", "--live", "--json", "--", work, "herd")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	noInstance(t, cmd.Process.Pid)
	var report struct {
		Locks []struct {
			Address    string
			Shared     bool
			Waits      int
			TotalNS    int64 `json:"total_ns"`
			WaitStacks []struct {
				Stack []struct{ Path string }
			} `json:"wait_stacks"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	// Four threads take one mutex 20 times each, and hold it for a millisecond.
	if len(report.Locks) == 0 {
		t.Fatalf("no locks\n%s", &out)
	}
	first := report.Locks[0]
	if first.Shared || first.Waits < 20 || first.Waits > 100 || first.TotalNS < 20e6 || !strings.HasPrefix(first.Address, "0x") {
		t.Errorf("%+v", first)
	}
	found := false
	for _, s := range first.WaitStacks {
		for _, f := range s.Stack {
			found = found || f.Path == work
		}
	}
	if !found {
		t.Errorf("the program is in none of the stacks\n%s", &out)
	}
}

// TestFutexInterval: the answer so far comes again and again, and the whole one
// at the end.
func TestFutexInterval(t *testing.T) {
	_, work := workload(t)
	cmd := exec.Command(ustackBinary(t), "futex", "--live", "--interval=200ms", "--json", "--", work, "sleeper", "2")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	noInstance(t, cmd.Process.Pid)
	type answer struct {
		Calls int64
	}
	var answers []answer
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var a answer
		if err := d.Decode(&a); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if n := len(answers); n > 0 && a.Calls < answers[n-1].Calls {
			t.Errorf("after %d calls there are %d", answers[n-1].Calls, a.Calls)
		}
		answers = append(answers, a)
	}
	// It waits 2000 times for a millisecond, at least.
	if n := len(answers); n < 4 || answers[0].Calls >= 2000 || answers[n-1].Calls < 2000 {
		t.Errorf("%d answers: %+v", n, answers)
	}
}

// TestFutexScreen: on a terminal the answer so far takes the place of the one
// before, in the room that there is, and the whole one comes at the end.
func TestFutexScreen(t *testing.T) {
	_, work := workload(t)
	person, tty := terminal(t)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 6, Col: 40}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(ustackBinary(t), "futex", "--live", "-q", "--", work, "sleeper", "3")
	cmd.Stdout, cmd.Stderr = tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	seen, _ := io.ReadAll(person) // EIO: who had the terminal has ended
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, seen)
	}
	screens := strings.Split(string(seen), "\033[H")
	if screens[0] != "" || len(screens) < 4 {
		t.Fatalf("%d screens: %q", len(screens), seen)
	}
	last := len(screens) - 1
	for i, s := range screens[1:last] {
		lines := strings.Split(strings.TrimPrefix(s, "\033[2J"), "\033[K\r\n")
		if len(lines) > 6 || !strings.Contains(lines[0], " events, ") || lines[len(lines)-1] != "\033[J" {
			t.Errorf("screen %d: %q", i, lines)
		}
		for _, line := range lines {
			if len([]rune(line)) > 40 {
				t.Errorf("a line of %d: %q", len(line), line)
			}
		}
	}
	if end := screens[last]; !strings.HasPrefix(end, "\033[J") || !strings.Contains(end, "in 3000 waits") {
		t.Errorf("the end is %q", end)
	}
}
