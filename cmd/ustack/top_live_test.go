//go:build linux && !device

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/terminaltest"
	"ustack/tracefs/capturetest"
)

// topKeys is how many keys TestTopLive presses to see how long the screen takes.
var topKeys = flag.Int("top-keys", 10, "how many keys to press for a time from key to screen")

// herds starts a program whose threads wait for one lock, until the end of the test.
func herds(t *testing.T) (pid string) {
	t.Helper()
	_, work := workload(t)
	cmd := exec.Command(work, "herds", "1000000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return strconv.Itoa(cmd.Process.Pid)
}

// onTerminal starts ustack on a terminal of 80 columns and 24 lines, without UTF-8 and
// without color.
func onTerminal(t *testing.T, args ...string) (cmd *exec.Cmd, person, tty *os.File) {
	t.Helper()
	person, tty = terminaltest.Open(t)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(ustackBinary(t), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(os.Environ(), "TERM=xterm", "LC_ALL=C", "NO_COLOR=1")
	return cmd, person, tty
}

// startedOn starts it, and sees to it that it ends before the test does.
func startedOn(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Signal(unix.SIGTERM)
			_ = cmd.Wait()
		}
		noInstance(t, cmd.Process.Pid)
	})
}

// pressed types keys.
func pressed(t *testing.T, person *os.File, keys string) {
	t.Helper()
	if _, err := person.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestTopLive: on a terminal without UTF-8 and color the screen comes, answers keys, saves a
// page of the waits since a mark, and leaves the terminal with a report.
func TestTopLive(t *testing.T) {
	needLive(t)
	dir := t.TempDir()
	cmd, person, tty := onTerminal(t, "top", "--no-symbols", "--dir", dir, "-p", herds(t))
	screen := terminaltest.Watch(t, person)
	before := termios(t, tty)
	startedOn(t, cmd)
	screen.Until("mutex")
	pressed(t, person, "m")
	screen.Until("marked")
	var took []time.Duration
	for i := range *topKeys {
		begin := time.Now()
		pressed(t, person, "?")
		screen.Next([...]string{"Keys", "WAIT/s"}[i%2])
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		t.Logf("from key to screen, %d times: median %v, p99 %v, most %v", n, took[n/2], took[(n*99-1)/100], took[n-1])
	}
	if *topKeys%2 == 1 {
		pressed(t, person, "?")
	}
	pressed(t, person, "h")
	var name string
	for deadline := time.Now().Add(3 * time.Minute); name == ""; time.Sleep(10 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(dir, "ustack-top-*.html"))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("nothing is saved (%v)", err)
		}
		if len(files) == 1 {
			name = files[0]
		}
	}
	pressed(t, person, "q")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v", err)
	}
	if after := termios(t, tty); before != after {
		t.Errorf("the terminal had %+v, and has %+v", before, after)
	}
	tty.Close()
	seen := screen.Rest()
	shown, report, _ := strings.Cut(seen, "\033[?1049l")
	for _, c := range []byte(shown) {
		if c >= 0x80 {
			t.Fatalf("no ASCII: %q", shown)
		}
	}
	if !strings.Contains(report, "mutex") || !strings.Contains(report, " stacks, ") {
		t.Errorf("no report at the end: %q", seen)
	}
	if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), "<html") {
		t.Errorf("%v, %.100q", err, text)
	}
}

func termios(t *testing.T, tty *os.File) unix.Termios {
	t.Helper()
	was, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *was
}

// TestTopBlocked: a terminal that takes nothing while a program runs holds up neither the
// program nor the end, and the report has all of it: a buffer has room for the whole trace,
// however busy the machine is. That reading goes on meanwhile shows TestBlocked of package
// top.
func TestTopBlocked(t *testing.T) {
	needLive(t)
	_, work := workload(t)
	done := filepath.Join(t.TempDir(), "done")
	cmd, person, tty := onTerminal(t, "top", "--no-symbols", "--", "sh", "-c", "'"+work+"' herds 10; touch '"+done+"'")
	const tcooff, tcoon = 0, 1 // man 3 tcflow
	if err := unix.IoctlSetInt(int(tty.Fd()), unix.TCXONC, tcooff); err != nil {
		t.Fatal(err)
	}
	startedOn(t, cmd)
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(done); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Error("the program does not end")
			break
		}
	}
	screen := terminaltest.Watch(t, person)
	if err := unix.IoctlSetInt(int(tty.Fd()), unix.TCXONC, tcoon); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code is the program's
	tty.Close()
	seen := screen.Rest()
	if regexp.MustCompile(`ustack: lost [0-9]+ records \(`).MatchString(seen) || strings.Contains(seen, " would have been lost with -b ") || !strings.Contains(seen, "Most: mutex") {
		t.Errorf("not the whole trace: %q", seen)
	}
}

// tmux runs a command of tmux with a server of its own.
func tmux(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", os.Getenv("USTACK_TEST_TMUX"), "-f", os.DevNull}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// inTmux waits until the screen in tmux matches.
func inTmux(t *testing.T, what string) string {
	t.Helper()
	match := regexp.MustCompile(what)
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, err := tmux(t, "capture-pane", "-p")
		if err == nil && match.MatchString(text) {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s on the screen (%v):\n%s", what, err, text)
		}
	}
}

// TestTopTmux: in a terminal of 80 columns and 24 lines rows come, and keys open a lock,
// filter, save and quit.
func TestTopTmux(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("SKIPPED: tmux is not installed (apt-get install tmux): nothing shows that ustack top works in it")
	}
	pid, dir := herds(t), t.TempDir()
	t.Setenv("USTACK_TEST_TMUX", filepath.Join(dir, "socket"))
	bin := ustackBinary(t)
	run := fmt.Sprintf("env LC_ALL=C.UTF-8 %s top --dir %s -p %s; echo code $?; sleep 1000", bin, dir, pid)
	if text, err := tmux(t, "-u", "new-session", "-d", "-x", "80", "-y", "24", run); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	t.Cleanup(func() { _, _ = tmux(t, "kill-server") })
	keys := func(keys ...string) {
		t.Helper()
		if text, err := tmux(t, append([]string{"send-keys"}, keys...)...); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	text := inTmux(t, `[0-9]+ +[0-9]+/[0-9]+ .*mutex`)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) != 24 || !strings.Contains(lines[0], "ustack top: ") || !strings.Contains(lines[23], "q quit") {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
	keys("Enter")
	inTmux(t, `waiters: work load-`)
	keys("q")
	inTmux(t, `WAIT/s`)
	keys("/", "n", "o", "n", "e", "x", "Enter")
	inTmux(t, `no row has "nonex"`)
	keys("Escape")
	inTmux(t, `[0-9]+ +[0-9]+/[0-9]+ .*mutex`)
	keys("w")
	inTmux(t, `saved /`)
	keys("q")
	text = inTmux(t, `code [0-9]+`)
	if !strings.Contains(text, "code 0") {
		t.Errorf("\n%s", text)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "ustack-top-*.txt")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestTopRefuses: what is no terminal, or one that cannot move its cursor, is refused, and
// what to use there is said.
func TestTopRefuses(t *testing.T) {
	if _, errs := runs(t, exitUsage, "top"); !strings.Contains(errs, "must be a terminal") || !strings.Contains(errs, "futex --live --interval") {
		t.Errorf("%q", errs)
	}
	cmd, person, tty := onTerminal(t, "top")
	cmd.Env = append(cmd.Env, "TERM=dumb")
	screen := terminaltest.Watch(t, person)
	err := cmd.Run()
	tty.Close()
	if seen := screen.Rest(); cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(seen, `TERM is "dumb"`) || strings.Contains(seen, "\033") {
		t.Errorf("%v, %q", err, seen)
	}
}
