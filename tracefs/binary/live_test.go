package binary

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/instance"
)

// live makes an instance, or skips the test where that is not possible; if it
// must run (USTACK_LIVE=must), it fails.
func live(t *testing.T) *instance.Instance {
	t.Helper()
	r, err := instance.Find("")
	var in *instance.Instance
	if err == nil {
		in, err = r.Create()
	}
	if err != nil {
		if os.Getenv("USTACK_LIVE") == "must" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := in.Remove(); err != nil {
			t.Errorf("removing the instance: %v", err)
		}
	})
	return in
}

// rawPages are the sub-buffers that a CPU has now.
func rawPages(t *testing.T, name string, size int) (out []byte) {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("opening %s: %v", name, err)
	}
	defer unix.Close(fd)
	page := make([]byte, size)
	for {
		switch n, err := unix.Read(fd, page); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return out
		case err != nil || n != size:
			t.Fatalf("reading %s: %d bytes, %v", name, n, err)
		default:
			out = append(out, page...)
		}
	}
}

// TestLive: pages of the running kernel give the text that it prints of them.
// Names of tasks may be forgotten between the one and the other.
func TestLive(t *testing.T) {
	in := live(t)
	if err := in.Configure(instance.Config{BufferKB: 2048}); err != nil {
		t.Fatal(err)
	}
	if _, err := in.SetOption("userstacktrace", true); err != nil {
		t.Fatal(err)
	}
	var events []instance.Event
	for _, name := range []string{"sched:sched_switch", "sched:sched_process_exec", "signal:signal_generate", "syscalls:sys_enter_futex",
		"syscalls:sys_exit_futex", "syscalls:sys_enter_execve"} {
		system, event, _ := strings.Cut(name, ":")
		if _, err := os.Stat(filepath.Join(in.Root().Path(), "events", system, event)); err == nil {
			events = append(events, instance.Event{System: system, Name: event})
		}
	}
	if err := errors.Join(in.Enable(events), in.Start()); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := exec.Command("true").Run(); err != nil {
			t.Fatal(err)
		}
	}
	off := filepath.Join(in.Path(), "tracing_on")
	marker := filepath.Join(in.Path(), "trace_marker")
	if err := errors.Join(os.WriteFile(marker, []byte("of this test"), 0), os.WriteFile(off, []byte("0"), 0)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(in.Path(), "trace"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := lines(readAll(t, liveSource(t, in)).text), lines(text)
	if len(got) != len(want) || len(want) < 20 || !bytes.Contains(text, []byte("tracing_mark_write: of this test\n")) {
		t.Fatalf("%d lines, the kernel printed %d", len(got), len(want))
	}
	const comm = 16
	for i := range want {
		if !bytes.Equal(got[i][min(comm, len(got[i])):], want[i][min(comm, len(want[i])):]) {
			t.Fatalf("line %d is\n%q\nthe kernel printed\n%q", i, got[i], want[i])
		}
	}
}

// liveSource takes the pages out of an instance that does not trace any more.
func liveSource(t *testing.T, in *instance.Instance) *Source {
	t.Helper()
	k, err := ReadMeta(os.DirFS(in.Root().Path()), os.DirFS(in.Path()))
	if err != nil {
		t.Fatal(err)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	k.Release = unix.ByteSliceToString(name.Release[:])
	size := k.Subbuf
	if size == 0 {
		size = k.Layout.Size
	}
	cpus, err := filepath.Glob(filepath.Join(in.Path(), "per_cpu", "cpu*"))
	if err != nil {
		t.Fatal(err)
	}
	var buffers []Buffer
	for _, path := range cpus {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), "cpu"))
		if err != nil {
			t.Fatal(err)
		}
		data := rawPages(t, filepath.Join(path, "trace_pipe_raw"), size)
		buffers = append(buffers, Buffer{CPU: int32(n), Pages: NewPages(bytes.NewReader(data), size, nil)})
	}
	return NewSource(k, buffers, Options{Events: true})
}
