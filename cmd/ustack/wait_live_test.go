//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

var waitRounds = flag.Int("wait.rounds", 40, "how often TestWaitLive has each thing waited for")

// rounding is by how much a wait in a report can be too long: times are in us.
const rounding = 2000

// loggedWait is what the program waits.c says of one kind of wait.
type loggedWait struct {
	tid, waker     int32
	switches, time int64
}

// waitRow is a row of the JSON report.
type waitRow struct {
	Waits     int64
	Open      int64
	Time      int64 `json:"total_ns"`
	Ready     int64 `json:"runnable_ns"`
	Uncertain struct{ Waits int64 }
	Sites     []struct {
		Kind, Call string
		Why        string `json:"why_unknown"`
		Stack      []struct{ Function, Path, Trust string }
	}
	Threads []struct{ TID int32 }
	Wakers  []struct {
		TID       int32
		Interrupt bool
		Waits     int64
	}
}

// wantedWaits are the kinds and calls of the waits of the program.
var wantedWaits = map[string][2]string{
	"pipe": {"io", "read"}, "socket": {"socket", "recvfrom"}, "futex": {"futex", "futex"}, "lock": {"file-lock", "flock"}, "ipc": {"ipc", "msgrcv"},
	"poll": {"poll", "ppoll"}, "epoll": {"poll", "epoll_pwait"}, "sleep": {"sleep", "clock_nanosleep"},
}

// TestWaitLive: each wait of a program is of the kind, the call, the thread and the
// function that the program says, woken by whom it says; and there are as many as the
// kernel counts, unless records were lost.
func TestWaitLive(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "waits")
	compile(t, program, "waits.c")
	cmd := exec.Command(ustackBinary(t), "wait", "-q", "--symbols", "--json", "--top", "0", "--", program, fmt.Sprint(*waitRounds))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	log := stderr.String()
	var r struct {
		Rows []waitRow
		Loss struct{ Gaps, Refused int64 }
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	logged := readWaits(t, log)
	counted := make(map[string]int64)
	times := make(map[string]int64)
	for i := range r.Rows {
		row := &r.Rows[i]
		name := waitsAt(row)
		if name == "" {
			continue
		}
		counted[name] += row.Waits + row.Open + row.Uncertain.Waits
		times[name] += row.Time + row.Ready
		if err := wrongWait(name, row, logged[name], program); err != nil {
			t.Errorf("%s: %v in %+v", name, err, *row)
		}
	}
	for name, l := range logged {
		if lost := r.Loss.Gaps+r.Loss.Refused > 0; counted[name] != l.switches && !(lost && counted[name] < l.switches) || times[name] > l.time+counted[name]*rounding {
			t.Errorf("%s: %d waits of %d ns, the kernel counts %d, of at most %d", name, counted[name], times[name], l.switches, l.time)
		}
	}
	t.Logf("%v waits, %d gaps", counted, r.Loss.Gaps)
}

// readWaits reads what the program says.
func readWaits(t *testing.T, log string) map[string]loggedWait {
	t.Helper()
	logged := make(map[string]loggedWait)
	for line := range strings.Lines(log) {
		var name string
		var l loggedWait
		if n, err := fmt.Sscan(line, &name, &l.tid, &l.waker, &l.switches, &l.time); n != 5 || err != nil {
			t.Fatalf("%q", line)
		}
		logged[name] = l
	}
	if len(logged) != len(wantedWaits) {
		t.Fatalf("the program says\n%s", log)
	}
	return logged
}

// waitsAt returns the kind of the function that the stack of a row begins in, "" if that
// is not one of wait_KIND.
func waitsAt(row *waitRow) string {
	if len(row.Sites) == 0 || len(row.Sites[0].Stack) == 0 {
		return ""
	}
	name, _ := strings.CutPrefix(row.Sites[0].Stack[0].Function, "wait_")
	if _, ok := wantedWaits[name]; !ok {
		return ""
	}
	return name
}

// wrongWait reports what a row has otherwise than the program.
func wrongWait(name string, row *waitRow, l loggedWait, program string) error {
	s := &row.Sites[0]
	want := wantedWaits[name]
	switch {
	case s.Kind == "page-fault" || s.Kind == "unknown" && s.Why == "lost":
		return nil
	case s.Kind != want[0] || s.Call != want[1]:
		return fmt.Errorf("it is %s %s", s.Kind, s.Call)
	case len(s.Stack) < 2 || s.Stack[1].Function != "waiter" || s.Stack[1].Path != program:
		return errors.New("the caller is not waiter")
	case len(row.Threads) != 1 || row.Threads[0].TID != l.tid:
		return errors.New("another thread")
	}
	for _, w := range row.Wakers {
		if name == "sleep" && w.TID != 0 || name != "sleep" && (w.Interrupt || w.TID != 0 && w.TID != l.waker) {
			return fmt.Errorf("woken by %d", w.TID)
		}
	}
	return nil
}
