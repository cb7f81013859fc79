package instance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// helperMode, in the environment, makes the test program a process that owns
// an instance.
const helperMode = "USTACK_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperMode) == "" {
		os.Exit(m.Run())
	}
	if err := own(os.Getenv(helperMode) == "once"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// own makes an instance, traces with it, prints its name and waits to be killed,
// or, once, removes the instance again.
func own(once bool) error {
	r, err := Find("")
	if err != nil {
		return err
	}
	in, err := r.Create()
	if err != nil {
		return err
	}
	if once {
		defer in.Remove()
	}
	if err := in.Configure(Config{BufferKB: 64}); err != nil {
		return err
	}
	if _, err := in.SetStacks(BestStacks); err != nil {
		return err
	}
	if err := in.Enable([]Event{{System: "sched", Name: "sched_switch"}}); err != nil {
		return err
	}
	p, err := in.Pipe()
	if err != nil {
		return err
	}
	if err := in.Start(); err != nil {
		return err
	}
	fmt.Println(in.Name())
	if once {
		return in.Remove()
	}
	_, err = io.Copy(io.Discard, p)
	return err
}

// owner is a running helper and the name of its instance.
type owner struct {
	name string
	cmd  *exec.Cmd
}

// startOwner starts a helper, which ends with the test, and its instance, too.
func startOwner(t *testing.T, r *Root) *owner {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperMode+"=own")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &owner{cmd: cmd}
	t.Cleanup(func() { o.kill(); _ = r.rmdir(r.path(instances + "/" + Prefix + strconv.Itoa(cmd.Process.Pid))) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !ourName.MatchString(strings.TrimSpace(line)) {
		t.Fatalf("the helper says %q (%v)", line, err)
	}
	o.name = strings.TrimSpace(line)
	return o
}

// kill is kill -9.
func (o *owner) kill() {
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait()
}

// live returns the real tracing interface, or skips the test.
func live(t testing.TB) *Root {
	t.Helper()
	r, err := Find("")
	if err == nil && !r.can(instances, unix.W_OK) {
		err = errors.New("no right to make instances")
	}
	if err == nil {
		return r
	}
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatal(err)
	}
	t.Skip(err)
	return nil
}

// create makes an instance that goes when the test ends.
func create(t testing.TB, r *Root) *Instance {
	t.Helper()
	in, err := r.Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Remove(); err != nil {
			t.Errorf("removing %s: %v", in.Name(), err)
		}
	})
	return in
}

// configured is create and Configure.
func configured(t testing.TB, r *Root) *Instance {
	t.Helper()
	in := create(t, r)
	check(t, in.Configure(Config{BufferKB: 256}))
	return in
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes files below a directory; a name with / at its end is a directory.
func tree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		parent := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			parent = path
		}
		check(t, os.MkdirAll(parent, 0o755))
		if parent != path {
			check(t, os.WriteFile(path, []byte(text), 0o644))
		}
	}
}

// fakeEvents are the events of a fake root.
var fakeEvents = []string{"sched:sched_switch", "sched:sched_wakeup", "syscalls:sys_enter_futex", "syscalls:sys_exit_futex",
	"syscalls:sys_enter_futex_wait", "irq:irq_handler_entry", "other:sched", "file_map:file_map"}

// fake makes a root in a plain directory, with the files of an instance for this
// process that has these options. Making an instance uses what is there, and removing
// one removes its files, as the kernel does with its own.
func fake(t testing.TB, options ...string) *Root {
	t.Helper()
	top := t.TempDir()
	files := map[string]string{
		availableEvents: strings.Join(fakeEvents, "\n") + "\n",
		"trace_clock":   "[local] global mono\n",
		"options/":      "",
	}
	at := instances + "/" + Prefix + strconv.Itoa(os.Getpid()) + "/"
	for _, name := range []string{"tracing_on", "current_tracer", "trace_clock", "buffer_size_kb", "trace_options",
		"set_event_pid", "set_event_notrace_pid", "events/enable", "error_log"} {
		files[at+name] = "untouched\n"
	}
	for _, name := range fakeEvents {
		system, event, _ := strings.Cut(name, ":")
		files[at+"events/"+system+"/"+event+"/enable"] = "0\n"
		files[at+"events/"+system+"/"+event+"/filter"] = "none\n"
	}
	for _, name := range options {
		files[at+"options/"+name] = "untouched\n"
	}
	tree(t, top, files)
	r, err := At(top)
	check(t, err)
	r.mkdir = func(path string) error { return os.MkdirAll(path, 0o750) }
	r.rmdir = os.RemoveAll
	return r
}

// is fails unless a file of the instance has this text.
func (i *Instance) is(t testing.TB, name, want string) {
	t.Helper()
	got, err := i.dir.read(name)
	if err != nil || strings.TrimSpace(got) != want {
		t.Errorf("%s is %q (%v), want %q", name, got, err, want)
	}
}

// patience is how long something may take that happens at once.
const patience = 20 * time.Second

// soon fails the test unless what a goroutine does ends.
func soon(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s has not ended after %v", what, patience)
	}
}

func (c *Cleaned) left(name string) error {
	i := slices.IndexFunc(c.Left, func(l Left) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return c.Left[i].Err
}
