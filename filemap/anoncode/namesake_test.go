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

	"ustack/tracefs"
)

// inNamespace runs cat in a PID namespace of its own, where it has a number, with a directory as
// /tmp. It returns its number here.
func inNamespace(t *testing.T, tmp string, number int) int {
	t.Helper()
	return runInNamespace(t, number, `mount --bind "$0" /tmp || exit`, "cat", tmp)
}

// runInNamespace runs a command in a PID namespace of its own, where it has a number, after others
// of the shell, for which $0 is a directory. It returns its number here.
func runInNamespace(t *testing.T, number int, before, command, dir string) int {
	t.Helper()
	const count = `until [ "${n:-0}" -ge $(($1-1)) ]; do : & n=$!; wait; done`
	script := strings.Join([]string{before, count, "exec 3<&0", command + " <&3 &", "wait"}, "\n")
	cmd := exec.Command("sh", "-c", script, dir, strconv.Itoa(number))
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
			st, err := ps.status(child)
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if err == nil && st.inside == number && strings.HasSuffix(command, strings.TrimSpace(string(comm))) {
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
	for number := 300; number < 1000; number++ { // services have smaller ones in their namespaces
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
	for _, c := range []struct {
		pid    int // of a process that knows itself by the number
		others []int
		want   bool
	}{
		{pid, nil, false},
		{pid, []int{os.Getpid()}, false}, // which has another number by now
		{os.Getpid(), nil, true},         // as if it were in a namespace
	} {
		n := &namesakes{of: map[int][]int{pid: c.others}}
		if got := n.seeMap(ps, c.pid, pid, info); got != c.want {
			t.Errorf("%d: %t, want %t", c.pid, got, c.want)
		}
	}
}

// TestHiddenNamesake: a process that we may not look at, or whose files cannot be opened, can have
// written any map. One that has ended has not.
func TestHiddenNamesake(t *testing.T) {
	const pid, other = 7, 8
	proc := t.TempDir()
	status := func(pid, inside int) {
		write(t, fmt.Sprintf("%s/%d/status", proc, pid), fmt.Sprintf("Uid:\t0\t0\t0\t0\nNStgid:\t%d\t%d\n", pid, inside))
	}
	for _, n := range []int{pid, other} {
		if err := os.MkdirAll(fmt.Sprintf("%s/%d/root/tmp", proc, n), 0o700); err != nil {
			t.Fatal(err)
		}
		status(n, 1)
	}
	path := fmt.Sprintf("%s/%d/", proc, other)
	write(t, fmt.Sprintf("%s/%d/root/tmp/perf-1.map", proc, pid), "1000 100 one\n")
	info, err := os.Lstat(fmt.Sprintf("%s/%d/root/tmp/perf-1.map", proc, pid))
	if err != nil {
		t.Fatal(err)
	}
	loop := func(name string) func() error {
		return func() error {
			return errors.Join(os.RemoveAll(path+name), os.Symlink(filepath.Base(name), path+name))
		}
	}
	for _, c := range []struct {
		what   string
		change func() error
		want   bool
	}{
		{"it has no map", func() error { return nil }, false},
		{"its map cannot be looked at", loop("root/tmp"), true},
		{"its root directory cannot be opened", loop("root"), true},
		{"its root directory is gone", func() error { return os.RemoveAll(path + "root") }, false},
		{"its status cannot be read", loop("status"), true},
		{"its status is gone", func() error { return os.RemoveAll(path + "status") }, false},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		ps := newProcesses(t, always)
		ps.proc = proc
		if got, err := ps.ambiguous(pid, &home{inside: 1}, info, 5); err != nil || got != c.want {
			t.Errorf("%s: %t, %v, want %t", c.what, got, err, c.want)
		}
	}
}

// TestManyNamesakes: where hundreds of containers run, the first process of each is looked at.
func TestManyNamesakes(t *testing.T) {
	const pid, many = 5, 300
	proc := t.TempDir()
	for n := pid; n < pid+many; n++ {
		if err := os.MkdirAll(fmt.Sprintf("%s/%d/root/tmp", proc, n), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, fmt.Sprintf("%s/%d/status", proc, n), fmt.Sprintf("Uid:\t0\t0\t0\t0\nNStgid:\t%d\t1\n", n))
	}
	name := fmt.Sprintf("%s/%d/root/tmp/perf-1.map", proc, pid)
	write(t, name, "1000 100 one\n")
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	ps := newProcesses(t, always)
	ps.proc = proc
	expect := func(want bool) {
		t.Helper()
		if got, err := ps.ambiguous(pid, &home{inside: 1}, info, 5); err != nil || got != want {
			t.Errorf("of %d: %t, %v, want %t", many, got, err, want)
		}
	}
	expect(false)
	if err := os.Link(name, fmt.Sprintf("%s/%d/root/tmp/perf-1.map", proc, pid+many-1)); err != nil {
		t.Fatal(err)
	}
	expect(true)
}

// TestNewNamesakes: once all processes were looked at, those are that can be new.
func TestNewNamesakes(t *testing.T) {
	const pid, hidden, first = 2000, 10, 2001
	proc := t.TempDir()
	run := func(pid, leader, inside int) {
		t.Helper()
		if err := os.MkdirAll(fmt.Sprintf("%s/%d/root/tmp", proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, fmt.Sprintf("%s/%d/status", proc, pid), fmt.Sprintf("Uid:\t0\t0\t0\t0\nNStgid:\t%d\t%d\n", leader, inside))
	}
	run(pid, pid, 1)
	run(hidden, hidden, 2)
	hide := func() {
		t.Helper()
		path := fmt.Sprintf("%s/%d/status", proc, hidden)
		if err := errors.Join(os.Remove(path), os.Symlink("status", path)); err != nil {
			t.Fatal(err)
		}
	}
	name := fmt.Sprintf("%s/%d/root/tmp/perf-1.map", proc, pid)
	write(t, name, "1000 100 one\n")
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	ps := newProcesses(t, always)
	newest := pid
	ps.proc, ps.newest = proc, func(string) (int, bool) { return newest, newest > 0 }
	now := tracefs.Time(1)
	expect := func(what string, want bool) {
		t.Helper()
		if got, err := ps.ambiguous(pid, &home{inside: 1}, info, now); err != nil || got != want {
			t.Errorf("%s: %t, %v, want %t", what, got, err, want)
		}
	}
	// namesake is a new process that sees the map, as long as fn runs.
	namesake := func(n int, fn func()) {
		t.Helper()
		run(n, n, 1)
		if err := os.Link(name, fmt.Sprintf("%s/%d/root/tmp/perf-1.map", proc, n)); err != nil {
			t.Fatal(err)
		}
		fn()
		if err := os.RemoveAll(fmt.Sprintf("%s/%d", proc, n)); err != nil {
			t.Fatal(err)
		}
	}
	expect("alone", false)
	hide()
	expect("an old process is not looked at again", false)
	namesake(first, func() {
		newest = first
		expect("a new one", true)
	})
	expect("the new one has ended", false)
	newest = first + 1
	expect("a number that nothing is seen to have", false)
	run(first+2, pid, 1)
	now, newest = now+visible/2, first+2
	expect("a thread of its own", false)
	namesake(first+1, func() { expect("the number is seen to be a process's", true) })
	for range 3 {
		now += visible
		expect("later", false)
	}
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"the kernel has begun again", func() { newest = 300 }},
		{"many new ones", func() { newest += mostNew + 1 }},
		{"long ago", func() { now += listAgain }},
		{"the newest is unknown", func() { newest = 0 }},
	} {
		if err := os.RemoveAll(fmt.Sprintf("%s/%d", proc, hidden)); err != nil {
			t.Fatal(err)
		}
		run(hidden, hidden, 2) // it can be looked at
		now, newest = now+1, pid
		ps.others = new(namesakes)
		expect(c.what+", at first", false)
		hide()
		c.change()
		expect(c.what, true)
	}
}

// TestNewestPID: the number of a new process is the newest.
func TestNewestPID(t *testing.T) {
	before, ok := newestPID("/proc")
	if !ok {
		cannot(t, "/proc/loadavg is of another PID namespace, or another program's")
	}
	cmd := exec.Command("cat")
	start(t, cmd)
	after, ok := newestPID("/proc")
	if pid := cmd.Process.Pid; !ok || before <= pid && pid > after {
		t.Errorf("%d was made between %d and %d, %t", pid, before, after, ok)
	}
	other := t.TempDir()
	write(t, other+"/loadavg", "0.00 0.00 0.00 1/100 4711\n")
	if pid, ok := newestPID(other); ok {
		t.Errorf("%d, of a file that is not the kernel's", pid)
	}
}
