//go:build linux

package anoncode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace starts a program that is the first process of a PID namespace, and returns its
// number here. With a path, that is /tmp there.
func inNamespace(t *testing.T, tmp string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", `test -z "$0" || mount --bind "$0" /tmp; exec cat`, tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	start(t, cmd)
	return cmd.Process.Pid
}

// TestNamesakes: of processes with one number in two PID namespaces and one /tmp, neither has
// names: which of them has written a line is unknown. A process with a /tmp of its own does not
// count.
func TestNamesakes(t *testing.T) {
	const name = "/tmp/perf-1.map"
	if _, err := os.Lstat(name); err == nil {
		cannot(t, "somebody has %s", name)
	}
	defer os.Remove(name)
	own := t.TempDir()
	first, apart := inNamespace(t, ""), inNamespace(t, own)
	write(t, name, "1000 100 one\n")
	write(t, filepath.Join(own, "perf-1.map"), "1000 100 apart\n")
	ps := newProcesses(t, always)
	expect := func(what string, pid int, want string) {
		t.Helper()
		if got := ps.string(Program{PID: pid, Began: 1}, 0x1010); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	expect("alone", first, "one+0x10")
	expect("another /tmp", apart, "apart+0x10")
	second := inNamespace(t, "")
	write(t, name, "1000 100 one\n3000 100 two\n")
	ps.others.read = 0 // a second later
	expect("the second one", second, "none")
	expect("the first one", first, "none")
	expect("another /tmp, later", apart, "apart+0x10")
}

// TestNamesakeOfHost: a process of another namespace can have the number of one that is in ours.
func TestNamesakeOfHost(t *testing.T) {
	cmd := exec.Command("cat")
	start(t, cmd)
	pid := cmd.Process.Pid
	name := fmt.Sprintf("/tmp/perf-%d.map", pid)
	defer os.Remove(name)
	write(t, name, "1000 100 one\n")
	ps := newProcesses(t, always)
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	at := clock(unix.CLOCK_MONOTONIC)
	for _, c := range []struct {
		pid    int // of a process that knows itself by the number
		others []int
		want   bool
	}{
		{pid, nil, false},
		{pid, []int{os.Getpid()}, false}, // which has another number by now
		{os.Getpid(), nil, true},         // as if it were in a namespace
	} {
		ps.others = namesakes{of: map[int][]int{pid: c.others}, read: at}
		if got, err := ps.ambiguous(c.pid, &home{inside: pid}, info, at); err != nil || got != c.want {
			t.Errorf("%s: %t, %v, want %t", strconv.Itoa(c.pid), got, err, c.want)
		}
	}
}
