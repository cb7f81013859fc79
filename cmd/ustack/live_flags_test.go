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
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/filemap/procmap"
	"ustack/tracefs/capturetest"
)

// traceShell starts a shell with a script, whose $0 is a program, and ustack with arguments
// for the PID of the shell. It closes the shell's input when ustack traces, and returns
// the PID of ustack and what it has printed when both have ended.
func traceShell(t *testing.T, script, program string, args func(pid string) []string) (pid int, out []byte, messages string) {
	t.Helper()
	victim := exec.Command("sh", "-c", script, program)
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	live := exec.Command(ustackBinary(t), args(strconv.Itoa(victim.Process.Pid))...)
	stderr := &startLine{begun: make(chan struct{})}
	var printed bytes.Buffer
	live.Stdout, live.Stderr = &printed, stderr
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	<-stderr.begun
	traces(t, live)
	in.Close()
	if err := victim.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := live.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr.text)
	}
	return live.Process.Pid, printed.Bytes(), stderr.text.String()
}

// TestLiveProcess: -p takes a process that runs, its threads and what it forks,
// and ends when it does.
func TestLiveProcess(t *testing.T) {
	_, work := workload(t)
	pid, out, messages := traceShell(t, `read x; "$0" forks 3; "$0" herd`, work, func(pid string) []string {
		return []string{"live", "-p", pid}
	})
	// The kernel has a name for a task only if it could take a lock when it would
	// note it (trace_sched_switch.c, trace_save_cmdline).
	waits := regexp.MustCompile(`(?m)^ +(?:work load|<\.\.\.>)-(\d+) .*sys_futex\(.* op: 0x80, val: 0, utime: 0x`).FindAllSubmatch(out, -1)
	tasks := make(map[string]bool)
	for _, m := range waits {
		tasks[string(m[1])] = true
	}
	// Three processes, then four threads of a fourth; another process waits in
	// no mode at all.
	if len(waits) != 3+80 || len(tasks) != 3+4 {
		t.Errorf("%d waits of %d tasks, want 83 of 7: %v\n%s\n%s", len(waits), len(tasks), tasks, messages, out)
	}
	noInstance(t, pid)
}

// TestLiveFamily: a process is traced with the children that it had before, and "ustack
// PID" stands for futex --live with names and owners.
func TestLiveFamily(t *testing.T) {
	_, work := workload(t)
	pid, out, messages := traceShell(t, `exec 3<&0; (read x <&3; "$0" herd) & wait`, work, func(pid string) []string {
		return []string{pid, "--json", "--no-owners"}
	})
	var report struct{ All struct{ Waits int } }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Four threads wait 20 times for the same thing, and for a lock or not.
	if report.All.Waits < 80 || !bytes.Contains(out, []byte(`"function":`)) {
		t.Errorf("%+v, want 80 waits, and functions\n%s%s", report, messages, out)
	}
	noInstance(t, pid)
}

// TestLiveRefused: what cannot be traced is said before anything is switched on.
func TestLiveRefused(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	bin := ustackBinary(t)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-e", "sched:sched_swich"}, exitFailure, "no event sched:sched_swich"},
		{[]string{"-e", "sched:sched_switch/nosuchfield==1/"}, exitFailure, "^"},
		{[]string{"-e", "sched:"}, exitFailure, "sched:"},
		{[]string{"-p", "0"}, exitUsage, "-p takes process IDs"},
		{[]string{"-p", "99999999"}, exitFailure, "no process 99999999"},
		{[]string{"--", "/nowhere/at-all"}, exitFailure, "starting /nowhere/at-all"},
		{[]string{"true"}, exitUsage, "goes after --"},
		{[]string{"--maps-source=both"}, exitUsage, "auto, ioctl, text"},
		{[]string{"-b", "1000000000"}, exitFailure, "buffer"},
		{[]string{"--tracefs", "/nowhere"}, exitFailure, "looking for tracefs"},
		{[]string{"-o", "/nowhere/out"}, exitFailure, "creating the output"},
	} {
		cmd := exec.Command(bin, append([]string{"live", "--duration=1ms"}, test.args...)...)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		_ = cmd.Run() // the exit code is checked
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(stderr.String(), test.says) || out.Len() > 0 {
			t.Errorf("%q: exit code %d, want %d and %q on stderr:\n%s%s", test.args, code, test.code, test.says, &stderr, &out)
		}
		noInstance(t, cmd.Process.Pid)
	}
}

// slowly runs live with an output that is not read while the command runs.
func slowly(t *testing.T, work string, kb int, flags ...string) (text []byte, stderr string) {
	t.Helper()
	done := filepath.Join(t.TempDir(), "done")
	args := append([]string{"-b", strconv.Itoa(kb)}, flags...)
	return readLate(t, done, append(args, "--", "sh", "-c", `"$0" burst 20000; echo >`+done, work)...)
}

// readLate runs live and reads its output when there is a file.
func readLate(t *testing.T, done string, args ...string) (text []byte, stderr string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(ustackBinary(t), append([]string{"live"}, args...)...)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for range 1000 {
		if _, err := os.Stat(done); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	text, err = io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	return text, errs.String()
}

var hint = regexp.MustCompile(`nothing would have been lost with -b (\d+)`)

// TestLiveLoss: what is lost is said where it was, and how to lose nothing.
func TestLiveLoss(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	text, stderr := slowly(t, work, 64)
	if !bytes.Contains(text, []byte(" [LOST ")) || !lostLine.MatchString(stderr) {
		t.Fatalf("nothing was lost\n%s", stderr)
	}
	m := hint.FindStringSubmatch(stderr)
	if m == nil {
		t.Fatalf("no hint\n%s", stderr)
	}
	kb, _ := strconv.Atoi(m[1])
	// The next run may have on one CPU what this one had on all.
	text, stderr = slowly(t, work, kb*runtime.NumCPU())
	if bytes.Contains(text, []byte(" [LOST ")) || lostLine.MatchString(stderr) {
		t.Errorf("lost with -b %d, too\n%s", kb, stderr)
	}
	if n := bytes.Count(text, []byte(": sys_futex(")); n < 20000 {
		t.Errorf("%d calls", n)
	}
}

// lostIn is how many records a text says were lost.
func lostIn(t *testing.T, text []byte) (n int) {
	t.Helper()
	for _, m := range regexp.MustCompile(` \[LOST (\d+) EVENTS\]`).FindAllSubmatch(text, -1) {
		count, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		n += count
	}
	return n
}

// TestLiveGrows: of what comes while nothing is read, less is lost when the buffer may grow,
// and all of it is there in the order of time, or counted. The buffer of which the size was
// said grows only if a limit was said.
func TestLiveGrows(t *testing.T) {
	_, work := workload(t)
	plain, stderr := slowly(t, work, 256)
	if strings.Contains(stderr, "the buffer grew") {
		t.Errorf("it grew\n%s", stderr)
	}
	grown, stderr := slowly(t, work, 256, "--max-buffer=64M")
	m := regexp.MustCompile(`the buffer grew from \d+ to (\d+) MB`).FindStringSubmatch(stderr)
	if m == nil || !strings.Contains(stderr, "the buffer grows, to at most 64 MB") {
		t.Fatalf("it did not grow\n%s", stderr)
	}
	before, after := lostIn(t, plain), lostIn(t, grown)
	t.Logf("%d records lost, %d when it grew to %s MB; %d and %d calls", before, after, m[1], bytes.Count(plain, []byte(": sys_futex(")), bytes.Count(grown, []byte(": sys_futex(")))
	if before == 0 || after >= before || bytes.Count(grown, []byte(": sys_futex(")) <= bytes.Count(plain, []byte(": sys_futex(")) {
		t.Errorf("%d records lost, %d when it could grow\n%s", before, after, stderr)
	}
}

// TestLiveMemory: with 200 processes, while the buffer stays as it is.
func TestLiveMemory(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	for range 200 {
		cmd := exec.Command(work, "hammer", "0", "0")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			_ = cmd.Wait()
		})
	}
	live := exec.Command(ustackBinary(t), "live", "--max-buffer=0", "-o", os.DevNull)
	stderr := &startLine{begun: make(chan struct{})}
	live.Stderr = stderr
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	<-stderr.begun
	if out, err := exec.Command(work, "storm", "300").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Not Maxrss of wait4(2): that begins with what the test itself has.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", live.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := live.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr.text)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmHWM in\n%s", status)
	}
	const most = 48 << 10 // KiB
	if rss, _ := strconv.Atoi(string(m[1])); rss > most && !raceDetector {
		t.Errorf("resident set of %d KiB, want at most %d", rss, most)
	} else {
		t.Logf("resident set of %d KiB", rss)
	}
}

// TestMapsSource: all that reads mappings reads them as it is asked to, by both
// ways of following them.
func TestMapsSource(t *testing.T) {
	capturetest.NeedLong(t)
	for _, command := range []string{"live", "record", "futex --live"} {
		for _, args := range [][]string{nil, {"--maps-source=ioctl"}, {"--maps-source=text"}} {
			var f *liveFlags
			var err error
			switch command {
			case "live":
				f, err = parseLive(args, io.Discard)
			case "record":
				var r *recordFlags
				r, err = parseRecord(append(args, "-o", "x"), io.Discard)
				f = &r.liveFlags
			default:
				_, f, err = parseFutexLive(args, io.Discard)
			}
			if err != nil || len(args) > 0 && args[0] != "--maps-source="+f.mapsFrom.String() || len(args) == 0 && f.mapsFrom.Source != procmap.Auto {
				t.Errorf("%s %v: %v, %v", command, args, f.mapsFrom, err)
			}
		}
	}
	_, work := workload(t)
	for _, source := range []string{"ioctl", "text"} {
		for _, how := range []string{"perf", "query"} {
			cmd := exec.Command(ustackBinary(t), "live", "--mappings="+how, "--maps-source="+source, "--", work, "herd")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s, %s: %v", source, how, err)
			}
			if !bytes.Contains(out, []byte(work)) {
				t.Errorf("%s, %s: no frame of the program", source, how)
			}
		}
	}
}
