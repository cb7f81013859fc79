//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/privilege/privilegetest"
)

// doctorRun is what a run of doctor gave.
type doctorRun struct {
	text   string
	object doctorObject
}

// runDoctor runs doctor twice, for text and JSON, as a user. Both must exit with
// the code that the verdict calls for.
func runDoctor(t *testing.T, bin string, user *syscall.Credential) doctorRun {
	t.Helper()
	var r doctorRun
	for _, flags := range [][]string{nil, {"--json"}} {
		cmd := exec.Command(bin, append([]string{"doctor"}, flags...)...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		err := cmd.Run()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || stderr.Len() > 0 {
			t.Fatalf("%v: %s", err, &stderr)
		}
		works := strings.HasPrefix(out.String(), "live works: ")
		if flags == nil {
			r.text = out.String()
		} else {
			if err := json.Unmarshal(out.Bytes(), &r.object); err != nil {
				t.Fatalf("%v in %s", err, &out)
			}
			works = r.object.Works
		}
		want := exitFailure
		if works {
			want = exitOK
		}
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("works: %v, exit code %d\n%s", works, code, &out)
		}
	}
	if line, _, _ := strings.Cut(r.text, "\n"); r.object.Works && line != r.object.Verdict {
		t.Errorf("text %q, JSON %q", line, r.object.Verdict)
	}
	checkDoctorText(t, r.text)
	return r
}

// TestLiveDoctor: it says what live then does.
func TestLiveDoctor(t *testing.T) {
	needLive(t)
	r := runDoctor(t, ustackBinary(t), nil)
	if !r.object.Works {
		t.Fatal(r.text)
	}
	run := traceLive(t, []string{"-e", "syscalls:sys_enter_exit_group"}, "/bin/true")
	for _, want := range []string{r.object.Stacks + " stacks", "mappings by " + r.object.Mappings + ",", "clock " + r.object.Clock + ",",
		"Linux " + r.object.Kernel + ","} {
		if line, _, _ := strings.Cut(run.stderr, "\n"); !strings.Contains(line, want) {
			t.Errorf("doctor: %s; live: %s", r.object.Verdict, line)
		}
	}
}

// needProgram skips a test, or fails it where live tests must run, if a program
// is not there.
func needProgram(t testing.TB, name string) {
	t.Helper()
	_, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("USTACK_LIVE") == "must":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// TestLiveDoctorNoRights: for a user without rights, doctor names the missing ones,
// and the command that gives them works.
func TestLiveDoctorNoRights(t *testing.T) {
	needLive(t)
	bin := privilegetest.Program(t, "ustack")
	r := runDoctor(t, bin, privilegetest.Attributes().Credential)
	if r.object.Works {
		t.Fatalf("a user without rights can trace:\n%s", r.text)
	}
	fix := ""
	states := make(map[string]string)
	for _, c := range r.object.Checks {
		states[c.Name] = c.State
		if c.Name == "tracefs" {
			fix = c.Fix
			if !strings.Contains(c.Without, "root (sudo) only") {
				t.Errorf("as it is: %s", c.Without)
			}
		}
	}
	for _, name := range []string{"tracefs", "CAP_DAC_OVERRIDE", "CAP_SYS_PTRACE"} {
		if states[name] != "missing" {
			t.Errorf("%s is %q\n%s", name, states[name], r.text)
		}
	}
	if !regexp.MustCompile(`^live does not work: tracefs: .*permission denied`).MatchString(r.object.Verdict) || !strings.HasPrefix(fix, "groupadd ") {
		t.Fatalf("verdict %q, fix %q", r.object.Verdict, fix)
	}
	needProgram(t, "setcap")
	// In a directory of ours, for a group of ours.
	installed := filepath.Join(filepath.Dir(bin), "installed", "ustack")
	for _, change := range [][2]string{{"groupadd -f ustack && ", "mkdir " + filepath.Dir(installed) + " && "},
		{"-g ustack ", fmt.Sprintf("-g %d ", privilegetest.Group)}, {"/usr/local/sbin/ustack", installed}} {
		if !strings.Contains(fix, change[0]) {
			t.Fatalf("no %q in %s", change[0], fix)
		}
		fix = strings.ReplaceAll(fix, change[0], change[1])
	}
	if out, err := exec.Command("sh", "-c", fix).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", fix, err, out)
	}
	if r := runDoctor(t, installed, privilegetest.Attributes().Credential); !r.object.Works {
		t.Errorf("after %s:\n%s", fix, r.text)
	}
	cmd := exec.Command(installed, "live", "-q", "-e", "syscalls:sys_enter_exit_group", "--", "/bin/true")
	cmd.Dir, cmd.SysProcAttr = "/", privilegetest.Attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("live: %v\n%s", err, out)
	}
	noInstance(t, cmd.ProcessState.Pid())
	// Who is not in the group may not run it.
	cmd = exec.Command(installed, "help")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: privilegetest.Other, Gid: privilegetest.Other}}
	if err := cmd.Run(); !errors.Is(err, os.ErrPermission) {
		t.Errorf("another user runs it: %v", err)
	}
}

// TestLiveDoctorNamespace: from inside a PID namespace, the processes of a trace
// are unknown, and inside a time namespace when they mapped what. Doctor says so, and
// live and maps --save do not try.
func TestLiveDoctorNamespace(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "unshare")
	bin := ustackBinary(t)
	pid := []string{"--pid", "--fork", "--mount-proc"}
	clock := []string{"--time", "--fork", "--monotonic", "-1000"}
	for _, c := range []struct {
		unshare, command []string
		want             string
	}{
		{pid, []string{"doctor"}, "live does not work: PID namespace: not the initial one"},
		{pid, []string{"live"}, "ustack live: a trace has the PIDs of the initial PID namespace"},
		{pid, []string{"maps", "--save", "-"}, "ustack maps: a trace has the PIDs of the initial PID namespace"},
		{clock, []string{"doctor"}, "live does not work: time namespace: not the initial one"},
		{clock, []string{"live"}, "ustack live: a trace has the clock of the initial time namespace"},
		{clock, []string{"maps", "--save", "-"}, "ustack maps: a trace has the clock of the initial time namespace"},
	} {
		if exec.Command("unshare", append(c.unshare, "true")...).Run() != nil {
			t.Logf("not possible here: unshare %q", c.unshare)
			continue
		}
		out, err := exec.Command("unshare", slices.Concat(c.unshare, []string{bin}, c.command)...).CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitFailure || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%q: %v\n%.300s", c.command, err, out)
		}
	}
}
