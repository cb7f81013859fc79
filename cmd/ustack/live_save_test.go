//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/capturetest"
)

// TestLiveReplayed: what live saves, replayed, gives what live gave.
func TestLiveReplayed(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	turns := filepath.Join(filepath.Dir(work), "turns")
	compile(t, turns, "turns.c", "-static", "-no-pie")
	reuse := filepath.Join(filepath.Dir(work), "reuse")
	compile(t, reuse, "reuse.c")
	for name, command := range map[string][]string{
		"storm": {work, "storm", "60"}, "herd": {work, "herd"}, "jit": {work, "jit"}, "ghost": {work, "ghost"}, "turns": {turns, turns, turns, "300"}, "reuse": {reuse, "2000"},
		"shell": {"sh", "-c", "for i in 1 2 3; do ls / >/dev/null; date; done"},
	} {
		formats := []string{"text", "json"}
		if capturetest.Brief() && name != "herd" {
			formats = formats[:1]
		}
		for _, format := range formats {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
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
// thousand programs since. A few frames are of a process of which nothing is known
// yet, more when other programs have the CPUs: one of some runs has next to none.
func TestLiveReadLate(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	turns := filepath.Join(t.TempDir(), "turns")
	compile(t, turns, "turns.c", "-static", "-no-pie")
	const tries, most = 3, 5
	var unknown []int
	for range tries {
		n := lateUnknown(t, turns, work)
		if n <= most {
			return
		}
		unknown = append(unknown, n)
	}
	t.Errorf("of %v frames it is not known what the process was, at most %d in one of %d runs", unknown, most, tries)
}

// lateUnknown reads late once, and returns how many frames are of an unknown process.
func lateUnknown(t *testing.T, turns, work string) int {
	t.Helper()
	dir := t.TempDir()
	done, saved := filepath.Join(dir, "done"), filepath.Join(dir, "saved")
	const script = `"$0" "$0" "$0" 1000; "$1" storm 300; echo >"$2"`
	text, stderr := readLate(t, done, "--save", saved, "-b", "20000", "-e", "kmem:kmalloc", "-e", "syscalls:sys_enter_futex", "--", "sh", "-c", script, turns, work, done)
	if lostLine.MatchString(stderr) {
		t.Fatalf("records were lost\n%s", stderr)
	}
	sameReplayed(t, text, saved, "text")
	return bytes.Count(text, []byte("no-address-space"))
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

// TestLiveSaveFull: a full disk ends live with an error that says what it was
// doing; the instance goes.
func TestLiveSaveFull(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	// The address spaces come first, and are small.
	for size, doing := range map[string]string{"4k": "logging the address spaces", "1m": "saving the trace"} {
		dir := t.TempDir()
		if err := unix.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(ustackBinary(t), "live", "-q", "-o", os.DevNull, "-e", "sched:sched_switch", "--save", dir, "--duration", "20s")
		out, _ := cmd.CombinedOutput()
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
		// The other file has no room either, if something is still written to it: then
		// it has an error of its own.
		code, said := cmd.ProcessState.ExitCode(), make(map[string]int)
		for line := range strings.Lines(string(out)) {
			if m := fullLine.FindStringSubmatch(line); m != nil {
				said[m[1]]++
			} else {
				t.Errorf("%s: %q", size, line)
			}
		}
		if code != exitFailure || said[doing] != 1 || bytes.Count(out, []byte("\n")) != len(said) {
			t.Errorf("%s: exit code %d, %q", size, code, out)
		}
		noInstance(t, cmd.ProcessState.Pid())
	}
}

// fullLine is an error of a file of --save that has no room.
var fullLine = regexp.MustCompile(`^ustack live: (logging the address spaces|saving the trace|saving the names of code in no file): write \S+/(?:spaces|trace|names)\.txt: no space left on device\n$`)

// TestLiveFiles: what live writes is private and new, whatever had the name, and
// no symbolic link is followed.
func TestLiveFiles(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	bin := ustackBinary(t)
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	victim := name("victim")
	err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o644), os.Symlink(victim, name("out-link")), os.Symlink(dir, name("dir-link")),
		os.Link(victim, name("out")), os.Mkdir(name("saved"), 0o755), os.Link(victim, name("saved/"+savedTraceFile)),
		os.Mkdir(name("trap"), 0o755), os.Symlink(victim, name("trap/"+savedSpacesFile)))
	if err != nil {
		t.Fatal(err)
	}
	live := func(args ...string) (code int, said string) {
		t.Helper()
		cmd := exec.Command(bin, append(append([]string{"live", "-q", "-e", "syscalls:sys_enter_exit_group"}, args...), "--", "/bin/true")...)
		out, _ := cmd.CombinedOutput()
		noInstance(t, cmd.ProcessState.Pid())
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, said := live("-o", name("out"), "--save", name("saved")); code != exitOK {
		t.Fatalf("exit code %d, %s", code, said)
	}
	for _, file := range []string{"out", "saved/" + savedTraceFile, "saved/" + savedSpacesFile} {
		if info, err := os.Lstat(name(file)); err != nil || info.Mode() != 0o600 || info.Size() == 0 {
			t.Errorf("%s is %v, %v", file, info, err)
		}
	}
	for _, args := range [][]string{{"-o", name("out-link")}, {"--save", name("dir-link")}, {"--save", name("trap")}} {
		code, said := live(append([]string{"-o", os.DevNull}, args...)...)
		if code != exitFailure || !strings.Contains(said, "a symbolic link is not followed") {
			t.Errorf("%q: exit code %d, %s", args, code, said)
		}
	}
	if b, err := os.ReadFile(victim); string(b) != "precious" {
		t.Errorf("the victim is %q, %v", b, err)
	}
	if exists(dir, savedTraceFile) {
		t.Error("files were saved through a link")
	}
}

// TestLiveRedirected: our own standard output by its path is what the shell has
// opened, and stays.
func TestLiveRedirected(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	for _, command := range []string{"live", "record"} {
		file, err := os.Create(filepath.Join(t.TempDir(), "redirected"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		// As /dev/stdout, which is not put at risk here.
		cmd := exec.Command(ustackBinary(t), command, "-q", "-o", "/proc/self/fd/1", "-e", "syscalls:sys_enter_exit_group", "--", "/bin/true")
		cmd.Stdout = file
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v, %s", command, err, &said)
		}
		if info, err := file.Stat(); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", command, info, err)
		}
		noInstance(t, cmd.ProcessState.Pid())
	}
}
