//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// libcAnnounced finds the identifier of the C library in a report.
var libcAnnounced = regexp.MustCompile(`file_map: hash=0x([0-9a-f]+)(?: dev=\[[0-9:]+\])? path=(\S*/libc\.so\.6) build_id=\{([0-9a-fx,]+)\}`)

// TestLiveSpoof: a user without rights executes a file whose name looks like an
// mapping event of the C library's identifier, while root traces; then another
// program of that user's makes calls. No frame of that is renamed, and the output
// reads back as the same records.
func TestLiveSpoof(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const allMayWrite = 0o777
	for _, open := range []string{filepath.Dir(dir), dir, filepath.Dir(filepath.Dir(work)), filepath.Dir(work)} {
		if err := os.Chmod(open, allMayWrite); err != nil {
			t.Fatal(err)
		}
	}
	// What another user can find out: the identifier in a report of their own, and the
	// hash of path and build ID that reports once had.
	probe := filepath.Join(dir, "probe.zst")
	if out, err := exec.Command(bin, "record", "-q", "-o", probe, "--", work, "storm", "3").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := replayed(t, bin, "--keep-maps", probe)
	if err != nil {
		t.Fatal(err)
	}
	m := libcAnnounced.FindSubmatch(text)
	if m == nil {
		t.Fatalf("no C library in the report\n%.2000s", text)
	}
	id, _ := strconv.ParseUint(string(m[1]), 16, 64)
	words, _ := filemap.ParseWords(m[3])
	old := filemap.File{Path: string(m[2]), BuildID: words, HasID: true}
	evil := forgedPath(dir, id, old.Identifier(tracefs.NoMark))
	copyProgram(t, evil)
	for name, args := range map[string][]string{
		"record": {"record"}, "record of text": {"record", "--source=text"}, "live": {"live"}, "live of text": {"live", "--source=text"},
	} {
		t.Run(name, func(t *testing.T) {
			out, saved := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "saved")
			spoofed := tracedSpoof(t, bin, append(args, "-e", "syscalls:sys_enter_futex", "-e", "sched:sched_process_exec", "-o", out, "--save", saved), evil, work)
			if args[0] == "live" {
				live, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				sameReplayed(t, live, saved, "text")
			}
			checkSpoof(t, out, evil, string(m[2]), len(args) == 1)
			if t.Failed() {
				t.Logf("%s", spoofed)
			}
		})
	}
}

// copyProgram makes a program of any name that all users may execute.
func copyProgram(t *testing.T, name string) {
	t.Helper()
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip("no program true")
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	const allMayRun = 0o755
	if err := os.MkdirAll(filepath.Dir(name), allMayRun); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, allMayRun); err != nil {
		t.Fatal(err)
	}
}

// tracedSpoof traces a shell of a user without rights that executes both programs,
// and returns what was said.
func tracedSpoof(t *testing.T, bin string, args []string, evil, work string) string {
	t.Helper()
	shell := exec.Command("sh", "-c", `read go; "$0"; "$1" storm 20`, evil, work)
	shell.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	tracer := exec.Command(bin, append(args, "-p", strconv.Itoa(shell.Process.Pid))...)
	stderr, err := tracer.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	lines := bufio.NewReader(io.TeeReader(stderr, &said))
	for line := ""; !strings.HasPrefix(line, "ustack: Linux "); { // it traces in a moment
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("%v\n%s", err, &said)
		}
	}
	traces(t, tracer)
	_, werr := io.WriteString(in, "go\n")
	if err := errors.Join(werr, in.Close(), shell.Wait(), tracer.Process.Signal(os.Interrupt)); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	_, _ = io.Copy(io.Discard, lines)
	if err := tracer.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	return said.String()
}

// checkSpoof reads what was written. raw means that the ring buffer was read: in the
// kernel's own text, the lines in a name are records.
func checkSpoof(t *testing.T, out, evil, libc string, raw bool) {
	t.Helper()
	lines, err := replayed(t, ustackBinary(t), "--format=json", out)
	if err != nil {
		t.Fatal(err)
	}
	lines = bytes.ReplaceAll(lines, []byte(`"comm":"work load"`), []byte(`"comm":"victim"`))
	got := readSpoofed(t, lines)
	if got.files["/usr/bin/ssh"] > 0 || got.files[libc] < 10 {
		t.Errorf("frames %v", got.files)
	}
	want := "filename=" + evil + " pid="
	executed := false
	for _, args := range got.execs {
		executed = executed || strings.HasPrefix(args, want)
	}
	if raw && (!executed || got.other > 0) {
		t.Errorf("executed %q, want %q; %d records of bash", got.execs, want, got.other)
	}
}
