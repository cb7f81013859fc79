//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLiveReplayed: what live saves, replayed, gives what live gave.
func TestLiveReplayed(t *testing.T) {
	_, work := workload(t)
	bin := ustackBinary(t)
	turns := filepath.Join(filepath.Dir(work), "turns")
	compile(t, turns, "turns.c", "-static", "-no-pie")
	for name, command := range map[string][]string{
		"storm": {work, "storm", "60"}, "herd": {work, "herd"}, "jit": {work, "jit"}, "ghost": {work, "ghost"}, "turns": {turns, turns, turns, "300"},
		"shell": {"sh", "-c", "for i in 1 2 3; do ls / >/dev/null; date; done"},
	} {
		for _, format := range []string{"text", "json"} {
			t.Run(name+" "+format, func(t *testing.T) {
				dir := t.TempDir()
				saved, out := filepath.Join(dir, "saved"), filepath.Join(dir, "out")
				args := []string{"live", "-q", "-e", "syscalls:sys_*_futex", "-e", "sched:sched_switch", "-e", "syscalls:sys_enter_openat", "-e", "kmem:kmalloc",
					"--format", format, "--save", saved, "-o", out, "--"}
				if text, err := exec.Command(bin, append(args, command...)...).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				live, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				sameReplayed(t, live, saved, format)
			})
		}
	}
}

// sameReplayed replays what was saved and holds it against what live gave.
func sameReplayed(t *testing.T, live []byte, saved, format string) {
	t.Helper()
	replay := exec.Command(ustackBinary(t), "replay", "-q", "--format", format, "--maps", filepath.Join(saved, savedSpacesFile), filepath.Join(saved, savedTraceFile))
	var stderr bytes.Buffer
	replay.Stderr = &stderr
	again, err := replay.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if len(live) == 0 {
		t.Error("live gave nothing")
	}
	if !bytes.Equal(live, again) {
		t.Errorf("%s", firstDifference(live, again))
	}
}

// TestLiveReadLate: who looks at the output only when all is over (a pager, say)
// sees every frame named all the same, of a process too that has executed a
// thousand programs since.
func TestLiveReadLate(t *testing.T) {
	_, work := workload(t)
	dir := t.TempDir()
	turns, done, saved := filepath.Join(dir, "turns"), filepath.Join(dir, "done"), filepath.Join(dir, "saved")
	compile(t, turns, "turns.c", "-static", "-no-pie")
	const script = `"$0" "$0" "$0" 1000; "$1" storm 300; echo >"$2"`
	text, stderr := readLate(t, done, "--save", saved, "-b", "20000", "-e", "kmem:kmalloc", "-e", "syscalls:sys_enter_futex", "--", "sh", "-c", script, turns, work, done)
	if lostLine.MatchString(stderr) {
		t.Fatalf("records were lost\n%s", stderr)
	}
	if n := bytes.Count(text, []byte("no-address-space")); n > 5 {
		t.Errorf("of %d frames it is not known what the process was\n%s", n, stderr)
	}
	sameReplayed(t, text, saved, "text")
}

// firstDifference shows where two texts part.
func firstDifference(a, b []byte) string {
	la, lb := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range la {
		if i >= len(lb) || !bytes.Equal(la[i], lb[i]) {
			text := "live:   " + string(la[i])
			if i < len(lb) {
				text += "\nreplay: " + string(lb[i])
			}
			return text
		}
	}
	return "the replay goes on"
}

// TestLiveSaveFull: a full disk ends live with one error that says what it was
// doing; the instance goes.
func TestLiveSaveFull(t *testing.T) {
	needLive(t)
	for name, doing := range map[string]string{savedSpacesFile: "logging the address spaces: ", savedTraceFile: "saving the trace: "} {
		dir := t.TempDir()
		if err := os.Symlink("/dev/full", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(ustackBinary(t), "live", "-q", "-o", os.DevNull, "-e", "sched:sched_switch", "--save", dir, "--duration", "20s")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitFailure || bytes.Count(out, []byte("\n")) != 1 ||
			!bytes.Contains(out, []byte(doing)) || !bytes.Contains(out, []byte("no space left")) {
			t.Errorf("%s: exit code %d, %q", name, code, out)
		}
		noInstance(t, cmd.ProcessState.Pid())
	}
}
