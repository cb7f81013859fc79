//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/privilege"
	"ustack/tracefs/privilege/privilegetest"
)

// advised are the capabilities that doctor advises.
const advised = privilege.Set(1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_PERFMON | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_CHECKPOINT_RESTORE)

// asOther runs a program as a user without rights.
func asOther(t *testing.T, bin string, args ...string) (code int, said string, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.SysProcAttr = "/", privilegetest.Attributes()
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), string(out), cmd.ProcessState.Pid()
}

// rootsFiles are files of root, of which another user can read and write none,
// and a directory of that user.
type rootsFiles struct {
	secret string // a directory that is root's alone, with a trace, a dump, a key and an inbox
	public string // one that all may read, with a file
	own    string // one of the user
	victim *exec.Cmd
}

const trueContents = "root's own"

func makeRootsFiles(t *testing.T) *rootsFiles {
	t.Helper()
	top := t.TempDir()
	f := &rootsFiles{filepath.Join(top, "secret"), filepath.Join(top, "public"), filepath.Join(top, "own"), exec.Command("sleep", "600")}
	trace, err := os.ReadFile(filepath.Join("..", "..", "testdata", "captures", "hash", "edge2", "trace.txt.zst"))
	err = errors.Join(err, os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755),
		os.Mkdir(f.secret, 0o700), os.Mkdir(f.public, 0o755), os.Mkdir(f.own, 0o755), os.Chown(f.own, privilegetest.Other, privilegetest.Other),
		os.MkdirAll(filepath.Join(f.secret, "inbox"), 0o755), os.MkdirAll(filepath.Join(f.secret, "tracefs", "instances", "ustack-1"), 0o755),
		os.Mkdir(filepath.Join(f.own, "inbox"), 0o777))
	for _, name := range []string{f.secret + "/trace", f.public + "/trace", f.own + "/inbox/trace", f.secret + "/inbox/trace"} {
		err = errors.Join(err, os.WriteFile(name, trace, 0o644))
	}
	for _, name := range []string{"/key", "/tracefs/available_events", "/1.maps", "/victim"} {
		err = errors.Join(err, os.WriteFile(f.secret+name, []byte(trueContents), 0o600))
	}
	err = errors.Join(err, os.WriteFile(f.public+"/victim", []byte(trueContents), 0o644), os.WriteFile(f.public+"/unreadable", trace, 0o600),
		os.Chown(f.own+"/inbox", privilegetest.Other, privilegetest.Other), f.victim.Start())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.victim.Process.Kill()
		_ = f.victim.Wait()
	})
	return f
}

// contents lists all that root has, with what is in the files.
func (f *rootsFiles) contents(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{f.secret, f.public} {
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// forbidden are commands that would read or write files of root.
func (f *rootsFiles) forbidden() (read, write [][]string) {
	pid := "/proc/" + strconv.Itoa(f.victim.Process.Pid)
	for _, file := range []string{f.secret + "/trace", f.public + "/unreadable", "/etc/shadow", pid + "/environ", pid + "/maps", pid + "/auxv", pid + "/root/etc/hostname",
		pid + "/cwd/go.mod"} {
		read = append(read, []string{"check-redaction", file}, []string{"replay", file}, []string{"futex", file}, []string{"needs", file}, []string{"explain", file + ":1"},
			[]string{"redact", file, "-o", "/dev/null"}, []string{"merge", "-o", "/dev/null", file}, []string{"maps", file}, []string{"health", file},
			[]string{"redact", "--redact-key", file, f.public + "/trace", "-o", "/dev/null"}, []string{"replay", "--maps", file, f.public + "/trace"},
			[]string{"live", "--redact-key", file}, []string{"record", "--redact", "--redact-key", file, "-o", f.own + "/none"})
	}
	read = append(read, []string{"replay", "--maps", f.secret, f.public + "/trace"}, []string{"replay", "--symbols", "--sysroot", f.secret, f.public + "/trace"},
		[]string{"replay", "--symbols", "--debug-dir", f.secret + "/inbox", f.public + "/trace"}, []string{"replay", "--symbols", "--perf-map", f.secret, f.public + "/trace"},
		[]string{"live", "--tracefs", f.secret + "/tracefs"}, []string{"record", "-o", f.own + "/none", "--tracefs", f.secret + "/tracefs"},
		[]string{"clean", "--tracefs", f.secret + "/tracefs"},
		[]string{"live", "--tracefs", "/sys/kernel/tracing/../../.." + f.secret + "/tracefs"},
		[]string{"watch", "--once", "--settle", "10ms", "--give-up", "10ms", "--out", f.own + "/none", f.secret + "/inbox"})
	write = [][]string{{"watch", "--once", "--settle", "10ms", "--give-up", "10ms", "--out", f.secret + "/done", f.own + "/inbox"},
		{"watch", "--once", "--settle", "10ms", "--give-up", "10ms", "--out", f.public + "/done", f.own + "/inbox"}}
	for _, file := range []string{f.public + "/victim", f.public + "/new", f.secret + "/victim", f.secret + "/new"} {
		traced := []string{"--", "/bin/true"}
		write = append(write, append([]string{"live", "-o", file}, traced...), append([]string{"live", "--save", file}, traced...),
			append([]string{"record", "-o", file}, traced...), append([]string{"record", "--ring", "--keep", "1s", "--trigger", "signal", "-o", file}, traced...),
			append([]string{"futex", "--live", "--save", file}, traced...),
			[]string{"maps", "--save", file}, []string{"redact", f.public + "/trace", "-o", file}, []string{"merge", f.public + "/trace", "-o", file})
	}
	return read, write
}

// TestRightsOfOthers: with the capabilities that doctor advises, a user traces, but
// neither reads nor writes a file that the user could not without.
func TestRightsOfOthers(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	bin, plain := privilegetest.Program(t, "ustack"), privilegetest.Program(t, "ustack")
	privilegetest.Give(t, bin, advised, false)
	checkRights(t, bin, plain)
}

// TestRightsAdvised: who has no rights reads why, and the one line that gives them. Root
// does not need it.
func TestRightsAdvised(t *testing.T) {
	plain, f := privilegetest.Program(t, "ustack"), makeRootsFiles(t)
	tracefs := f.public + "/tracefs"
	if err := os.Mkdir(tracefs, 0o700); err != nil {
		t.Fatal(err)
	}
	const line = "\nustack %s: run it with sudo"
	for _, command := range []string{"futex --live", "live", "record -o /dev/null", "wait --duration 1s"} {
		name, _, _ := strings.Cut(command, " ")
		code, said, _ := asOther(t, plain, append(strings.Fields(command), "--tracefs", tracefs)...)
		if code != exitFailure || !strings.Contains(said, "permission denied; it needs root or CAP_DAC_OVERRIDE") || !strings.Contains(said, fmt.Sprintf(line, name)) {
			t.Errorf("%s: exit code %d, %s", command, code, said)
		}
		if privilege.Set.Attainable(advised) != strings.Contains(said, "install -o root -g ustack -m 0750 "+plain+" /usr/local/sbin/ustack && setcap cap_dac_override,") {
			t.Errorf("%s: %s", command, said)
		}
	}
	if advised != privilege.Advised() {
		t.Errorf("tested with %b, advised are %b", advised, privilege.Advised())
	}
}

// TestRightsInEffect: the same if the capabilities are in effect from the start,
// as former versions advised.
func TestRightsInEffect(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "go")
	bin, plain := privilegetest.Program(t, "ustack"), privilegetest.Program(t, "ustack")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	privilegetest.Protect(t, bin)
	privilegetest.Give(t, bin, advised, true)
	checkRights(t, bin, plain)
}

func checkRights(t *testing.T, bin, plain string) {
	t.Helper()
	f := makeRootsFiles(t)
	before := f.contents(t)
	read, write := f.forbidden()
	for _, args := range read {
		code, said, pid := asOther(t, bin, args...)
		wantCode, want, plainPID := asOther(t, plain, args...)
		if code != wantCode || anonymous(said, bin, pid) != anonymous(want, plain, plainPID) {
			t.Errorf("%q: exit code %d, without rights %d\n%s\nwithout rights\n%s", args, code, wantCode, said, want)
		}
	}
	for _, args := range write {
		code, said, pid := asOther(t, bin, args...)
		if code != exitFailure || !strings.Contains(said, "permission denied") && !strings.Contains(said, "not a directory") || strings.Contains(said, "CAP_") {
			t.Errorf("%q: exit code %d, %s", args, code, said)
		}
		noInstance(t, pid)
	}
	if code, said, _ := asOther(t, bin, "doctor", "--tracefs", f.secret+"/tracefs"); code != exitFailure || !strings.Contains(said, "permission denied") {
		t.Errorf("doctor looks into root's directory: exit code %d\n%s", code, said)
	}
	if after := f.contents(t); after != before {
		t.Errorf("root's files were\n%sand are\n%s", before, after)
	}
	checkTracing(t, f, bin, plain)
}

// anonymous replaces the path and the PID of a program in its messages. Other numbers
// can have the digits of the PID.
func anonymous(said, bin string, pid int) string {
	said = strings.ReplaceAll(said, bin, "ustack")
	return regexp.MustCompile(`\b`+strconv.Itoa(pid)+`\b`).ReplaceAllString(said, "PID")
}

// TestRightsAnonymous: the PID 323 is not in /proc/32334/maps.
func TestRightsAnonymous(t *testing.T) {
	const said = "/tmp/1/ustack: ustack-323: /proc/32334/maps, PID 323"
	if got := anonymous(said, "/tmp/1/ustack", 323); got != "ustack: ustack-PID: /proc/32334/maps, PID PID" {
		t.Error(got)
	}
}

// checkTracing: what the rights are for works.
func checkTracing(t *testing.T, f *rootsFiles, bin, plain string) {
	t.Helper()
	victim := strconv.Itoa(f.victim.Process.Pid)
	if code, said, _ := asOther(t, plain, "maps", victim); code != exitFailure || !strings.Contains(said, "permission denied") {
		t.Errorf("without rights: maps of a process of root: exit code %d\n%s", code, said)
	}
	if code, said, _ := asOther(t, bin, "maps", victim); code != exitOK || !strings.Contains(said, "libc") {
		t.Errorf("maps of a process of root: exit code %d\n%s", code, said)
	}
	out, saved := f.own+"/live.txt", f.own+"/saved"
	code, said, pid := asOther(t, bin, "live", "-q", "--source=binary", "-e", "syscalls:sys_enter_exit_group", "--symbols", "-o", out, "--save", saved, "--", "/bin/true")
	text, err := os.ReadFile(out)
	if code != exitOK || err != nil || !bytes.Contains(text, []byte(" => ")) {
		t.Errorf("live: exit code %d, %s\n%s, %v", code, said, text, err)
	}
	noInstance(t, pid)
	for _, args := range [][]string{{"record", "-q", "-e", "syscalls:sys_enter_exit_group", "-o", f.own + "/report.zst", "--", "/bin/true"}, {"futex", "--live", "-q", "--", "/bin/true"}, {"doctor"}, {"clean"}} {
		code, said, pid := asOther(t, bin, args...)
		if code != exitOK && !strings.Contains(said, "no futex call of the command") {
			t.Errorf("%q: exit code %d\n%s", args, code, said)
		}
		noInstance(t, pid)
	}
}
