//go:build linux

package anoncode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace starts a program in a PID namespace of its own, where it has a number, and a
// directory as /tmp. It returns its number here.
func inNamespace(t *testing.T, tmp string, number int) int {
	t.Helper()
	const script = `mount --bind "$0" /tmp || exit
until [ "${n:-0}" -ge $(($1-1)) ]; do : & n=$!; wait; done
exec 3<&0
cat <&3 &
wait`
	cmd := exec.Command("sh", "-c", script, tmp, strconv.Itoa(number))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	start(t, cmd)
	first, ps := cmd.Process.Pid, newProcesses(t, always)
	for range 1000 {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", first))
		if err != nil {
			cannot(t, "%v", err)
		}
		for _, child := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			if _, inside, err := ps.status(pid); err == nil && inside == number {
				time.Sleep(5 * time.Duration(tick)) // as in start
				return pid
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	cannot(t, "no process has number %d in a namespace of its own", number)
	return 0
}

// freeNumber returns a number that nothing has here. Who has number 1 may not be looked at.
func freeNumber(t *testing.T) int {
	t.Helper()
	for number := 3; number < 1000; number++ {
		if _, err := os.Lstat("/proc/" + strconv.Itoa(number)); errors.Is(err, fs.ErrNotExist) {
			return number
		}
	}
	cannot(t, "all small numbers are taken")
	return 0
}

// TestNamesakes: of processes with one number in two PID namespaces and one /tmp, neither has
// names: which of them has written a line is unknown. A process with a /tmp of its own does not
// count.
func TestNamesakes(t *testing.T) {
	number, shared, own := freeNumber(t), t.TempDir(), t.TempDir()
	first, apart := inNamespace(t, shared, number), inNamespace(t, own, number)
	write(t, filepath.Join(shared, mapName(number)), "1000 100 one\n")
	write(t, filepath.Join(own, mapName(number)), "1000 100 apart\n")
	ps := newProcesses(t, always)
	expect := func(what string, pid int, want string) {
		t.Helper()
		if got := ps.string(Program{PID: pid, Began: 1}, 0x1010); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	expect("alone", first, "one+0x10")
	expect("another /tmp", apart, "apart+0x10")
	second := inNamespace(t, shared, number)
	write(t, filepath.Join(shared, mapName(number)), "1000 100 one\n3000 100 two\n")
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
