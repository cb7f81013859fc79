package instance

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/capturetest"
)

// TestClean in a plain directory: only what is ours and dead goes.
func TestClean(t *testing.T) {
	r := fake(t)
	tree(t, r.path(instances), map[string]string{"ustack-1/events/": "", "ustack-2.7/options/" + optionDeferred: "1",
		"ustack-2.7/tracing_on": "1", "ustack-3/": "", "ustack-1-raw/events/": "", "ustack-1.2-raw/": "", "ustack-1-other/": "", "bench/": "", "ustack-x/": ""})
	check(t, os.Symlink(r.path(instances+"/bench"), r.path(instances+"/ustack-4")))
	alive, err := lock(r.path(instances + "/ustack-3"))
	check(t, err)
	defer alive.Close()
	busy := r.rmdir
	r.rmdir = func(path string) error {
		if strings.HasSuffix(path, "ustack-2.7") {
			return unix.EBUSY
		}
		return busy(path)
	}
	own := create(t, r)
	c, err := r.Clean()
	check(t, err)
	if !slices.Equal(c.Removed, []string{"ustack-1", "ustack-1-raw", "ustack-1.2-raw"}) || len(c.Left) != 4 {
		t.Errorf("%+v", c)
	}
	for _, name := range []string{own.Name(), "ustack-3"} {
		if err := c.left(name); err != ErrAlive {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.left("ustack-2.7"); !errors.Is(err, unix.EBUSY) || !strings.Contains(c.Failed().Error(), "another process has one of its files open") {
		t.Errorf("a busy one: %v", err)
	}
	if got, _ := dir(r.path(instances + "/ustack-2.7")).read("options/" + optionDeferred); got != "0" {
		t.Errorf("deferred stacks of a dead one: %q", got)
	}
	if got, _ := dir(r.path(instances + "/ustack-2.7")).read("tracing_on"); got != "1" {
		t.Errorf("tracing_on of a dead one: %q", got)
	}
	if err := c.left("ustack-4"); err == nil {
		t.Error("a symbolic link was followed")
	}
	names, err := r.Instances()
	if want := []string{"bench", "ustack-1-other", "ustack-2.7", "ustack-3", "ustack-4", own.Name(), "ustack-x"}; err != nil || !sameNames(names, want) {
		t.Errorf("%q (%v), want %q", names, err, want)
	}
}

// TestBeside: an instance has another one beside it, whose process is the same.
func TestBeside(t *testing.T) {
	r := fake(t)
	in := create(t, r)
	beside, err := in.Beside()
	check(t, err)
	if beside.Name() != in.Name()+besideSuffix || !ourName.MatchString(beside.Name()) {
		t.Errorf("%s beside %s", beside.Name(), in.Name())
	}
	c, err := r.Clean()
	check(t, err)
	if pids := c.Alive(); len(c.Removed) > 0 || !slices.Equal(pids, []int{os.Getpid()}) {
		t.Errorf("%+v, alive: %v", c, pids)
	}
	check(t, beside.Remove())
	if names, err := r.Instances(); err != nil || slices.Contains(names, beside.Name()) {
		t.Errorf("%q are left (%v)", names, err)
	}
}

func sameNames(a, b []string) bool {
	slices.Sort(b)
	return slices.Equal(a, b)
}

// TestCreate in a plain directory: what is prepared is used, and what another
// process has (of another PID namespace) is not.
func TestCreate(t *testing.T) {
	r := fake(t)
	base := Prefix + strconv.Itoa(os.Getpid())
	other, err := lock(r.path(instances + "/" + base))
	check(t, err)
	in := create(t, r)
	if in.Name() != base+".1" {
		t.Errorf("the instance is %s", in.Name())
	}
	check(t, other.Close())
	prepared := create(t, r)
	if prepared.Name() != base || !prepared.dir.has("tracing_on") {
		t.Errorf("the instance is %s", prepared.Name())
	}
	if third := create(t, r); third.Name() != base+".2" {
		t.Errorf("the instance is %s", third.Name())
	}
}

// TestLockAll: who makes instances waits for who cleans, but not for ever.
func TestLockAll(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel() // the lock is waited for
	r := fake(t)
	all, err := r.lockAll()
	check(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := r.Clean(); err != nil {
			t.Error(err)
		}
	}()
	check(t, all.Close())
	soon(t, "Clean", done)

	all, err = r.lockAll()
	check(t, err)
	defer all.Close()
	if _, err := r.Create(); !errors.Is(err, errLocked) {
		t.Errorf("error %v", err)
	}
}

// TestLiveKill: what a process killed with -9 leaves is removed, with the events it
// had on, and nothing of one that runs.
func TestLiveKill(t *testing.T) {
	r := live(t)
	dead, alive := startOwner(t, r), startOwner(t, r)
	own := create(t, r)
	dead.kill()
	c, err := r.Clean()
	check(t, err)
	gone(t, r, dead.name, &c)
	for _, name := range []string{alive.name, own.Name()} {
		if !errors.Is(c.left(name), ErrAlive) || !r.has(instances+"/"+name) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if got, err := r.read(instances + "/" + alive.name + "/events/sched/sched_switch/enable"); got != "1\n" || err != nil {
		t.Errorf("sched_switch of the one that runs is %q (%v)", got, err)
	}
}

// gone fails unless Clean has removed an instance. Another process that cleans
// may have been faster.
func gone(t *testing.T, r *Root, name string, c *Cleaned) {
	t.Helper()
	if err := c.left(name); err != nil || r.has(instances+"/"+name) {
		t.Errorf("%s is not removed: %v", name, err)
	}
}

// leave makes an instance without an owner. What prepare does to it is done before
// it can be cleaned.
func leave(t *testing.T, r *Root, name string, prepare func(d dir)) {
	t.Helper()
	all, err := r.lockAll()
	check(t, err)
	defer all.Close()
	d := dir(r.path(instances + "/" + name))
	check(t, os.Mkdir(string(d), 0o750))
	t.Cleanup(func() {
		if err := unix.Rmdir(string(d)); err != nil && err != unix.ENOENT {
			t.Error(err)
		}
	})
	prepare(d)
}

// TestLiveReused: a name of a PID that is in use again, by a process that is
// no ustack, or by us.
func TestLiveReused(t *testing.T) {
	r := live(t)
	mine := Prefix + strconv.Itoa(os.Getpid())
	leave(t, r, mine, func(d dir) { check(t, d.write("trace_clock", "counter")) })
	in := create(t, r)
	if clock, err := in.Clock(); in.Name() != mine || clock != "local" || err != nil {
		t.Errorf("%s has the clock %s (%v): not a fresh one", in.Name(), clock, err)
	}
	check(t, in.Remove())

	parent := Prefix + strconv.Itoa(os.Getppid())
	leave(t, r, parent, func(dir) {})
	c, err := r.Clean()
	check(t, err)
	gone(t, r, parent, &c)
}

// TestLiveNamespace: a ustack in another PID namespace lives, although there is
// no process by its number here, or another one.
func TestLiveNamespace(t *testing.T) {
	r := live(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperMode+"=own")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	b := make([]byte, 100)
	n, err := out.Read(b)
	check(t, err)
	name := strings.TrimSpace(string(b[:n]))
	if !ourName.MatchString(name) || !strings.HasPrefix(name, Prefix+"1") {
		t.Fatalf("the helper says %q", name)
	}
	t.Cleanup(func() { _ = unix.Rmdir(r.path(instances + "/" + name)) })
	c, err := r.Clean()
	check(t, err)
	if c.left(name) != ErrAlive {
		t.Errorf("%s: %+v", name, c)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	c, err = r.Clean()
	check(t, err)
	gone(t, r, name, &c)
}

// TestLiveForeign: instances of others are not looked into, and one of ours
// that is being read stays as it is.
func TestLiveForeign(t *testing.T) {
	r := live(t)
	held := Prefix + "4000000000" // no PID
	foreign := "instance-test-" + strconv.Itoa(os.Getpid())
	var reader *os.File
	leave(t, r, foreign, func(d dir) { check(t, d.write("events/sched/sched_switch/enable", "1")) })
	leave(t, r, held, func(d dir) {
		check(t, d.write("events/sched/sched_switch/enable", "1"))
		var err error
		reader, err = os.Open(d.path("trace_pipe"))
		check(t, err)
		t.Cleanup(func() { reader.Close() })
	})
	c, err := r.Clean()
	check(t, err)
	if err := c.left(held); !errors.Is(err, unix.EBUSY) {
		t.Errorf("%+v", c)
	}
	for _, name := range []string{held, foreign} {
		if got, err := r.read(instances + "/" + name + "/events/sched/sched_switch/enable"); got != "1\n" || err != nil {
			t.Errorf("sched_switch of %s is now %q (%v)", name, got, err)
		}
	}
	check(t, reader.Close())
	c, err = r.Clean()
	check(t, err)
	gone(t, r, held, &c)
	if !r.has(instances + "/" + foreign) {
		t.Errorf("%s is removed", foreign)
	}
}
