package sideband

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/space"
	"ustack/tracefs"
)

// TestClocks: times are those of the clock.
func TestClocks(t *testing.T) {
	for name, id := range clocks {
		b, _ := openBand(t, Options{Clock: name})
		for range 20 {
			before := now(id)
			cmd := exec.Command("true")
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			after := now(id)
			drain(t, b)
			for _, v := range b.History.Spaces.Space(cmd.Process.Pid).Versions() {
				if v.From < before || v.To > after {
					t.Errorf("%s: from %d to %d, but that was between %d and %d", name, v.From, v.To, before, after)
				}
			}
		}
	}
	for _, name := range []string{"local", "global", "counter", "uptime", "perf", "x86-tsc", "real"} {
		if b, err := Open(space.New(), Options{Clock: name}); !errors.Is(err, ErrClock) || b != nil {
			t.Errorf("clock %s: %v", name, err)
		}
	}
}

// TestLoss: a ring that is too small loses records, says so, and a reading of
// all makes it good.
func TestLoss(t *testing.T) {
	b, r := openBand(t, Options{RingSize: 1})
	if b.RingSize() != minRing {
		t.Errorf("a ring of %d bytes", b.RingSize())
	}
	// Two of them, so that each CPU gets some.
	const script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); (exec true); done"
	from := b.Now()
	first, second := exec.Command("sh", "-c", script), exec.Command("sh", "-c", script)
	if err := errors.Join(first.Start(), second.Start(), first.Wait(), second.Wait()); err != nil {
		t.Fatal(err)
	}
	d, err := b.Drain()
	if err != nil {
		t.Fatal(err)
	}
	if d.Lost == 0 || !d.Doubt || !b.History.Gaps.Doubtful(b.Now()) || b.History.Gaps.Doubtful(from) {
		t.Errorf("%+v", d)
	}
	if again, err := b.Drain(); err != nil || again.Lost != 0 || !again.Doubt {
		t.Errorf("after that: %+v, %v", again, err)
	}
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	d = drain(t, b)
	if b.History.Gaps.Doubtful(d.Until) {
		t.Error("after a refresh all is in doubt")
	}
	if err := exec.Command("true").Run(); err != nil {
		t.Fatal(err)
	}
	// The LOST record comes now. It tells nothing new.
	drain(t, b)
	for _, pid := range b.History.Threads.processes() {
		if _, err := os.Stat(fmt.Sprint("/proc/", pid)); err != nil {
			t.Errorf("process %d lives on: %v", pid, err)
		}
	}
}

// TestDenied: without the right to perf, the error says what would help.
func TestDenied(t *testing.T) {
	needRoot(t)
	if text, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); err != nil || strings.TrimSpace(string(text)) < "1" {
		t.Skipf("everybody may use perf here: %s (%v)", text, err)
	}
	h := startHelper(t, "open")
	if said := h.said["denied"]; len(said) != 1 || !strings.HasPrefix(said[0], "true ") || !strings.Contains(said[0], "CAP_PERFMON") {
		t.Errorf("a user may: %v", h.said)
	}
}

// TestLockedMemory: rings are as large as we may have them.
func TestLockedMemory(t *testing.T) {
	needRoot(t)
	openBand(t, Options{}) // or this machine has none
	h := startHelper(t, "memory")
	var size int
	switch refused := h.said["refused"]; {
	case len(refused) == 1:
		if !strings.HasPrefix(refused[0], "true ") || !strings.Contains(refused[0], "perf_event_mlock_kb") {
			t.Errorf("%v", refused)
		}
	case len(h.said["size"]) != 1:
		t.Errorf("%v", h.said)
	default:
		if _, err := fmt.Sscan(h.said["size"][0], &size); err != nil || size < minRing || size >= 64<<20 {
			t.Errorf("rings of %d bytes, %v", size, err)
		}
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "needs root")
	}
}

// TestChroot: the kernel tells names as the process sees them, /proc as we do.
// A reading does not take the one for another file than the other.
func TestChroot(t *testing.T) {
	needRoot(t)
	b, r := openBand(t, Options{})
	root := t.TempDir()
	copyFile(t, "/proc/self/exe", filepath.Join(root, "bin/x"))
	if err := os.Symlink("bin", filepath.Join(root, "lib")); err != nil {
		t.Fatal(err)
	}
	h := startHelper(t, "chroot", root)
	drain(t, b)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", h.pid()))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), filepath.Join(root, "bin/x")) {
		t.Skipf("the program in a chroot is linked otherwise:\n%s", text)
	}
	check := func() {
		t.Helper()
		versions := b.History.Spaces.Space(h.pid()).Versions()
		for _, m := range versions[len(versions)-1].Mappings {
			if m.File.Name == "/bin/x" && m.Exact && !m.File.BuildID.IsZero() {
				return
			}
		}
		for _, m := range versions[len(versions)-1].Mappings {
			t.Errorf("in the chroot: %+v", *m.File)
		}
	}
	check()
	n := len(b.History.Spaces.Space(h.pid()).Versions())
	for range 2 {
		if err := b.Read(r, h.pid()); err != nil {
			t.Fatal(err)
		}
		check()
	}
	if again := len(b.History.Spaces.Space(h.pid()).Versions()); again != n {
		t.Errorf("a reading makes %d versions of %d", again, n)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestLiveLog: the log of what really happened gives the same answers.
func TestLiveLog(t *testing.T) {
	var log bytes.Buffer
	b, r := openBand(t, Options{Log: &log})
	from := b.Now()
	var pids []int
	for i := range 50 {
		cmd := exec.Command("sh", "-c", "(true); true & wait; exec true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, cmd.Process.Pid)
		if i == 20 {
			if err := b.Read(r, os.Getpid()); err != nil {
				t.Fatal(err)
			}
		}
		drain(t, b)
	}
	lib := mappedLibrary(t)
	h := startHelper(t, "map", lib)
	pids = append(pids, h.pid(), os.Getpid())
	drain(t, b)
	until := b.Now()
	again, err := Load(space.New(), bytes.NewReader(log.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, pid := range pids {
		for _, v := range b.History.Spaces.Space(pid).Versions() {
			for _, m := range v.Mappings {
				for _, at := range []tracefs.Time{from, v.From - 1, v.From, m.Since - 1, m.Since, v.To - 1, v.To, until} {
					a, okA := b.History.Lookup(pid, m.Start, at)
					b, okB := again.Lookup(pid, m.Start, at)
					if okA != okB || okA && (*a.Mapping.File != *b.Mapping.File || a.Offset != b.Offset || a.Late != b.Late || a.PID != b.PID) {
						t.Fatalf("process %d, %#x at %d: %+v, %v; of the log: %+v, %v", pid, m.Start, at, a, okA, b, okB)
					}
					n++
				}
			}
		}
	}
	t.Logf("%d lookups, a log of %d bytes", n, log.Len())
}

// TestHotplug: a CPU that goes on makes a gap, one that goes off is let go.
func TestHotplug(t *testing.T) {
	sys := t.TempDir()
	online := func(list string) {
		t.Helper()
		name := filepath.Join(sys, onlineFile)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(list+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	real, err := onlineCPUs("/sys")
	if err != nil || len(real) < 2 {
		t.Skipf("CPUs %v, %v", real, err)
	}
	first, second := real[0], real[1]
	online(fmt.Sprint(first))
	b, r := openBand(t, Options{Sys: sys})
	if got := fmt.Sprint(b.CPUs()); got != fmt.Sprint([]int{first}) {
		t.Fatalf("CPUs %s", got)
	}
	online(fmt.Sprintf("%d,%d", first, second))
	drain(t, b)
	b.checked -= listAgain
	d, err := b.Drain()
	if err != nil || !d.Doubt || d.Lost != 0 || len(b.CPUs()) != 2 || len(b.FDs()) != 2 {
		t.Errorf("CPUs %v, %+v, %v", b.CPUs(), d, err)
	}
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	online(fmt.Sprint(second))
	b.checked -= listAgain
	drain(t, b)
	if got := fmt.Sprint(b.CPUs()); got != fmt.Sprint([]int{second}) {
		t.Errorf("CPUs %s", got)
	}
	online("none")
	b.checked -= listAgain
	drain(t, b)
	if _, err := Open(space.New(), Options{Sys: t.TempDir()}); err == nil {
		t.Error("no list of CPUs, and no error")
	}
	online("4095")
	if _, err := Open(space.New(), Options{Sys: sys}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no CPU that is on: %v", err)
	}
}

// TestPoll: descriptors can be polled, and are not ready while there is room.
func TestPoll(t *testing.T) {
	b, _ := openBand(t, Options{})
	var list []unix.PollFd
	for _, fd := range b.FDs() {
		list = append(list, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	if n, err := unix.Poll(list, 0); n != 0 || err != nil {
		t.Errorf("%d are ready, %v", n, err)
	}
}

func BenchmarkDrainNothing(b *testing.B) {
	band, _ := openBand(b, Options{})
	for b.Loop() {
		if _, err := band.Drain(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDrain drains the records of a process that executes a program, some
// ten, again and again.
func BenchmarkDrain(b *testing.B) {
	for name, log := range map[string]io.Writer{"plain": nil, "log": io.Discard} {
		b.Run(name, func(b *testing.B) {
			band := &Band{History: NewHistory(space.New())}
			if log != nil {
				band.History.log = &logWriter{w: log}
			}
			m := []string{"/usr/bin/true", "[vdso]", "/usr/lib/ld.so", "/usr/lib/libc.so.6"}
			d := new(Drained)
			records := 0
			for i := 0; b.Loop(); i++ {
				pid, t := 100+i%20000, uint64(1000*i)
				q := &band.batch
				q.bytes, q.order = q.bytes[:0], q.order[:0]
				q.bytes = append(q.bytes, rawTask(unix.PERF_RECORD_FORK, pid, 1, pid, 1, t, 0)...)
				q.bytes = append(q.bytes, rawComm(pid, pid, unix.PERF_RECORD_MISC_COMM_EXEC, "true", t+1, 0)...)
				for k, name := range m {
					q.bytes = append(q.bytes, rawMap(pid, pid, uint64(k+1)<<20, 0x2000, 0, rx, 2, name, t+2+uint64(k))...)
				}
				q.bytes = append(q.bytes, rawTask(unix.PERF_RECORD_EXIT, pid, 1, pid, 1, t+10, 0)...)
				if err := q.index(0); err != nil {
					b.Fatal(err)
				}
				d.Until = tracefs.Time(t + 100)
				band.apply(d)
				records += len(q.order)
				if i%1000 == 0 {
					band.History.Expire(d.Until - 1e6)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
		})
	}
}
