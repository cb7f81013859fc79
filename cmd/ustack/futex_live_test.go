//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/terminaltest"
	"ustack/tracefs/capturetest"
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

// TestFutexLiveSplit: what owners do is traced with a command, unless that is not
// wanted.
func TestFutexLiveSplit(t *testing.T) {
	_, work := workload(t)
	for _, flag := range []string{"-q", "--no-sched"} {
		out, err := exec.Command(ustackBinary(t), "futex", "--live", "--json", flag, "--", work, "herd").Output()
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Locks []struct {
				Total int64          `json:"total_ns"`
				Split map[string]any `json:"split"`
			}
			Notes []string
		}
		if err := json.Unmarshal(out, &report); err != nil || len(report.Locks) == 0 {
			t.Fatalf("%d locks: %v\n%s", len(report.Locks), err, out)
		}
		said := slices.ContainsFunc(report.Notes, func(n string) bool { return strings.Contains(n, "enable the events sched_switch and sched_waking") })
		l := report.Locks[0]
		if flag == "--no-sched" {
			if l.Split != nil || !said {
				t.Errorf("%v, %q", l.Split, report.Notes)
			}
			continue
		}
		part := func(name string) float64 { v, _ := l.Split[name].(float64); return v }
		// The owner sleeps while it has the lock, and does next to nothing else. How long
		// it and the next one wait for a CPU is up to other programs.
		blocked, ours := part("blocked_ns"), part("blocked_ns")+part("ran_ns")+part("unknown_ns")
		if sum := ours + part("runnable_ns") + part("hand_over_ns"); int64(sum) != l.Total || blocked == 0 || blocked < ours/2 || said {
			t.Errorf("%v of %d, %q", l.Split, l.Total, report.Notes)
		}
	}
}

// TestFutexInterval: the answer so far comes again and again, and the whole one
// at the end.
func TestFutexInterval(t *testing.T) {
	capturetest.NeedLong(t)
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
	capturetest.NeedLong(t)
	_, work := workload(t)
	person, tty := terminaltest.Open(t)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 6, Col: 40}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(ustackBinary(t), "futex", "--live", "-q", "--pager=never", "--", work, "sleeper", "3")
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
	if end := screens[last]; !strings.HasPrefix(end, "\033[J") || !strings.Contains(end, "   3000x  ") {
		t.Errorf("the end is %q", end)
	}
}

// lockWorkload is the program of the tests of render/futex, built.
func lockWorkload(t *testing.T) string {
	t.Helper()
	needLive(t)
	needProgram(t, "gcc")
	bin := filepath.Join(t.TempDir(), "workload")
	if out, err := exec.Command("gcc", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o", bin, "../../render/futex/testdata/workload.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestFutexOwners: two locks that were got without waiting, of which a trace has
// nothing, have their owners in memory: the deadlock is seen. No process is disturbed.
func TestFutexOwners(t *testing.T) {
	bin := lockWorkload(t)
	work := exec.Command(bin, "abba")
	in, err := work.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = work.Process.Kill()
		_ = work.Wait()
	}()
	live := exec.Command(ustackBinary(t), "futex", "--live", "--owners", "--json", "-p", strconv.Itoa(work.Process.Pid))
	stderr := &startLine{begun: make(chan struct{})}
	var out bytes.Buffer
	live.Stdout, live.Stderr = &out, stderr
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	<-stderr.begun
	traces(t, live)
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	hangs(t, work.Process.Pid)
	time.Sleep(300 * time.Millisecond)
	if err := live.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := live.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr.text)
	}
	var report struct {
		Verdict struct {
			Kind, Confidence string
			Evidence         []string
		}
		Blocked []struct {
			TID, Owner int32
			FromMemory bool  `json:"owner_from_memory"`
			AtLeast    int64 `json:"at_least_ns"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	v := report.Verdict
	if v.Kind != "deadlock" || v.Confidence != "high" || !strings.Contains(strings.Join(v.Evidence, "\n"), "by the lock's memory") {
		t.Errorf("%+v\n%s", v, &out)
	}
	ring := make(map[int32]int32)
	for _, b := range report.Blocked {
		if b.AtLeast < 200e6 { // though nothing happens in that time
			t.Errorf("thread %d has waited for %d ns", b.TID, b.AtLeast)
		}
		if b.FromMemory {
			ring[b.TID] = b.Owner
		}
	}
	circle := 0
	for tid, owner := range ring {
		if ring[owner] == tid && tid != owner {
			circle++
		}
	}
	if circle != 2 {
		t.Errorf("owners %v in %+v", ring, report.Blocked)
	}
}

// TestFutexKilled: a program that hangs is seen to while nothing happens, and the
// answer is the same after a Ctrl-C has ended it with us.
func TestFutexKilled(t *testing.T) {
	capturetest.NeedLong(t)
	bin := lockWorkload(t)
	live := exec.Command(ustackBinary(t), "futex", "--live", "-q", "--owners", "--interval=1s", "--", bin, "abba")
	live.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := live.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// It is killed right after a report: in one that comes while it is being killed,
	// one of the threads can have ended.
	seen := make(chan struct{})
	out := &awaited{word: []byte("Deadlock: "), times: 2, seen: sync.OnceFunc(func() { close(seen) })}
	live.Stdout, live.Stderr = out, out
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seen: // it was reported while it hung
	case <-time.After(time.Minute):
		t.Error("nothing was reported while it hung")
	}
	if err := syscall.Kill(-live.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = live.Wait() // with the code of the command
	answers := strings.Split(strings.TrimSpace(out.text.String()), "Deadlock: ")
	if last := answers[len(answers)-1]; len(answers) < 3 || !strings.Contains(last, "by the lock's memory") || strings.Contains(last, "\n\nDeadlock") {
		t.Errorf("%d answers, the last is %s", len(answers), last)
	}
	if final := out.text.String(); !strings.HasPrefix(final[strings.LastIndex(final, "Deadlock: "):], "Deadlock: workload-") ||
		strings.Count(final, " of trace") != strings.Count(final, "Deadlock: ")+strings.Count(strings.SplitN(final, "Deadlock: ", 2)[0], " of trace") {
		t.Errorf("after the first report, it was not reported again:\n%s", final)
	}
	noInstance(t, live.Process.Pid)
}

// hangs waits until all threads of a process but one are in futex calls.
func hangs(t *testing.T, pid int) {
	t.Helper()
	for range 1000 {
		waiting := 0
		calls, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		for _, name := range calls {
			if text, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(text), fmt.Sprint(unix.SYS_FUTEX, " ")) {
				waiting++
			}
		}
		if waiting >= 2 && waiting >= len(calls)-1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the workload does not hang")
}

// TestFutexOwnersHerd: the owners that are read are the threads of the program.
func TestFutexOwnersHerd(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	out, err := exec.Command(ustackBinary(t), "futex", "--live", "-q", "-v", "--owners", "--", work, "herds", "40").Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`its owner, read (\d+) times: (.*)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no owner was read\n%s", out)
	}
	if n, _ := strconv.Atoi(string(m[1])); n < 3 || bytes.Count(m[2], []byte("work load-")) < 2 {
		t.Errorf("%s", m[0])
	}
}
