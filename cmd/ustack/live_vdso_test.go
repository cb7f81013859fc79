//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ustack/tracefs/capturetest"
)

// childOf waits for the child of a process that runs a program of a name.
func childOf(t *testing.T, parent int, name string) (pid int) {
	t.Helper()
	for range 1000 {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
		for _, list := range lists {
			children, _ := os.ReadFile(list)
			for _, child := range strings.Fields(string(children)) {
				if comm, _ := os.ReadFile("/proc/" + child + "/comm"); string(comm) == name+"\n" {
					if pid, err := strconv.Atoi(child); err == nil {
						return pid
					}
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not run", name)
	return 0
}

// TestLiveVDSO: frames in the vDSO have the names of its symbol table: live, of
// what live has saved, and of mappings that maps has saved, if the vDSO is known
// to be ours.
func TestLiveVDSO(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir := t.TempDir()
	program, saved, dump, out := filepath.Join(dir, "vdso"), filepath.Join(dir, "saved"), filepath.Join(dir, "maps.tar"), filepath.Join(dir, "out")
	compile(t, program, "vdso.c")
	cmd := exec.Command(ustackBinary(t), "live", "-q", "--symbols", "--save", saved, "-o", out, "-e", "syscalls:sys_enter_clock_gettime", "--", program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"maps", "--save", dump, fmt.Sprint(childOf(t, cmd.Process.Pid, "vdso"))}, strings.NewReader(""), t.Output(), t.Output()); code != 0 {
		t.Errorf("maps --save: %d", code)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	live, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^ =>  <[0-9a-f]{16}> (clock_gettime|__kernel_clock_gettime)\+0x[0-9a-f]+ : \[vdso\] \(unresolved: vdso\)$`)
	bare := regexp.MustCompile(`(?m)^ =>  <[0-9a-f]{16}> : \[vdso\] \(unresolved: vdso\)$`)
	if n := len(named.FindAll(live, -1)); n != 20 {
		t.Fatalf("%d names\n%s", n, live)
	}
	again := func(maps string, more ...string) []byte {
		var stdout bytes.Buffer
		args := append(append([]string{"replay", "-q"}, more...), "--maps", maps, filepath.Join(saved, savedTraceFile))
		if code := run(args, strings.NewReader(""), &stdout, t.Output()); code != 0 {
			t.Fatalf("%v: %d", args, code)
		}
		return stdout.Bytes()
	}
	spaces := filepath.Join(saved, savedSpacesFile)
	if got := again(spaces, "--symbols"); !bytes.Equal(got, live) {
		t.Error(firstDifference(live, got))
	}
	if got := again(dump, "--symbols"); len(named.FindAll(got, -1)) != 20 {
		t.Errorf("with the mappings of maps:\n%s", got)
	}
	if got := again(spaces); len(bare.FindAll(got, -1)) != 20 {
		t.Errorf("names that were not asked for:\n%s", got)
	}
	text, err := os.ReadFile(spaces)
	if err != nil {
		t.Fatal(err)
	}
	for what, line := range map[string]string{"another vDSO": "vdso 0.000000000 0123456789abcdef0123456789abcdef01234567\n", "an unknown one": ""} {
		other := filepath.Join(dir, "other.txt")
		if err := os.WriteFile(other, regexp.MustCompile(`(?m)^vdso .*\n`).ReplaceAll(text, []byte(line)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := again(other, "--symbols"); len(bare.FindAll(got, -1)) != 20 {
			t.Errorf("%s:\n%s", what, got)
		}
	}
}
