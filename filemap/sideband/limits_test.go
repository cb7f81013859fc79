package sideband

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestClocks: times are those of the clock.
func TestClocks(t *testing.T) {
	for _, name := range []string{"mono", "mono_raw", "boot", "tai"} {
		id, err := perf.ClockID(name)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := openBand(t, Options{Clock: name})
		for range 20 {
			before := perf.Now(id)
			cmd := exec.Command("true")
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			after := perf.Now(id)
			drain(t, b)
			for _, v := range b.History.Spaces.Space(cmd.Process.Pid).Versions() {
				if v.From < before || v.To > after {
					t.Errorf("%s: from %d to %d, but that was between %d and %d", name, v.From, v.To, before, after)
				}
			}
		}
	}
	for _, name := range []string{"local", "global", "counter", "uptime", "perf", "x86-tsc", "real"} {
		if b, err := Open(space.New(), Options{Clock: name}); !errors.Is(err, perf.ErrClock) || b != nil {
			t.Errorf("clock %s: %v", name, err)
		}
	}
}

// TestLoss: a ring that is too small loses records, says so, and a reading of
// all makes it good.
func TestLoss(t *testing.T) {
	if b, _ := openBand(t, Options{RingSize: 1}); b.RingSize() != perf.MinRing {
		t.Errorf("a ring of %d bytes", b.RingSize())
	}
	const size = 16 * perf.MinRing // what else the machine does has room while all is read, mostly
	b, r := openBand(t, Options{RingSize: size})
	makeGood(t, b, r)
	from := b.drained - 1 // what is lost is of later
	loseRecords(t)
	d, err := b.Drain()
	if err != nil {
		t.Fatal(err)
	}
	if d.Lost == 0 || !d.Doubt || !b.History.Gaps.Doubtful(b.Now()) || b.History.Gaps.Doubtful(from) {
		t.Errorf("%+v", d)
	}
	if again, err := b.Drain(); err != nil || again.Lost >= d.Lost || !again.Doubt {
		t.Errorf("after that: %+v, %v", again, err) // what was lost counts once
	}
	makeGood(t, b, r)
}

// loseRecords runs programs, more than small rings have room for. There are two at a
// time, so that each CPU gets some.
func loseRecords(t *testing.T) {
	t.Helper()
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); (exec true); done", 1600+100*runtime.NumCPU())
	first, second := exec.Command("sh", "-c", script), exec.Command("sh", "-c", script)
	if err := errors.Join(first.Start(), second.Start(), first.Wait(), second.Wait()); err != nil {
		t.Fatal(err)
	}
}

// makeGood reads all until nothing was lost meanwhile.
func makeGood(t *testing.T, b *Band, r *procmap.Reader) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !madeGood(t, b, r); {
		if time.Now().After(end) {
			t.Fatal("each reading of all was followed by a loss")
		}
	}
}

// madeGood reads all and checks that nothing is in doubt then. It reports whether
// no more records were lost meanwhile.
func madeGood(t *testing.T, b *Band, r *procmap.Reader) bool {
	t.Helper()
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	drained := func() (d Drained, whole bool) {
		d, err := b.Drain()
		if err != nil {
			t.Fatal(err)
		}
		if d.Lost == 0 && (d.Malformed > 0 || d.Doubt) {
			t.Errorf("nothing is lost, but %+v", d)
		}
		return d, d.Lost == 0
	}
	d, whole := drained()
	if !whole {
		return false
	}
	if b.History.Gaps.Doubtful(d.Until) {
		t.Error("after a refresh all is in doubt")
	}
	if err := exec.Command("true").Run(); err != nil {
		t.Fatal(err)
	}
	// The LOST record comes now. It adds nothing.
	if _, whole = drained(); !whole {
		return false
	}
	var gone []int
	for _, pid := range b.History.Threads.processes() {
		if _, err := os.Stat(fmt.Sprint("/proc/", pid)); err != nil {
			gone = append(gone, pid) // which may have been just now
		}
	}
	if _, whole = drained(); !whole {
		return false
	}
	for _, pid := range gone {
		if b.History.Threads.Live(pid) > 0 {
			t.Errorf("process %d lives on", pid)
		}
	}
	return true
}

// TestReached: what a process was is known until the trace has gone on, however
// long that takes, but not of more processes than there is room for.
func TestReached(t *testing.T) {
	const keep = time.Millisecond
	b, _ := openBand(t, Options{Keep: keep})
	var cmd *exec.Cmd
	run := func() {
		t.Helper()
		cmd = exec.Command("true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		drain(t, b)
		time.Sleep(10 * keep)
		drain(t, b)
	}
	known := func() bool { return b.History.Spaces.Space(cmd.Process.Pid) != nil }
	if run(); !known() {
		t.Error("what the trace has not reached is forgotten")
	}
	b.Reached(b.Now())
	if drain(t, b); known() {
		t.Error("what the trace has reached is kept")
	}
	b.opt.Most = b.History.Spaces.Len() / 2
	if run(); known() {
		t.Error("more is kept than there is room for")
	}
	b.opt.Most = 10 * b.History.Spaces.Len()
	if run(); !known() {
		t.Error("what there is room for is forgotten")
	}
	for i := range 4*b.opt.Most + 1 {
		b.History.Threads.started(1, 1<<22+i, b.Now())
	}
	if drain(t, b); known() {
		t.Error("more threads are kept than there is room for")
	}
}

// TestDenied: without the right to perf, the error says what would help.
func TestDenied(t *testing.T) {
	needRoot(t)
	if text, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); err != nil || strings.TrimSpace(string(text)) < "1" {
		t.Skipf("all users may use perf here: %s (%v)", text, err)
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
		if _, err := fmt.Sscan(h.said["size"][0], &size); err != nil || size < perf.MinRing || size >= 64<<20 {
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

// TestRoots: the kernel reports names as the process sees them. So does /proc of
// containers, but for a process in a chroot it shows them as we see them. Both
// names are of one file.
func TestRoots(t *testing.T) {
	needRoot(t)
	if isDynamic(t, "/proc/self/exe") {
		t.Skip("this test needs libraries, which are not in the other root (CGO_ENABLED=0 makes one that does not)")
	}
	for _, mode := range []string{"chroot", "pivot"} {
		b, r := openBand(t, Options{})
		root := t.TempDir()
		copyFile(t, "/proc/self/exe", filepath.Join(root, "bin/x"))
		time.Sleep(2 * coarse) // it could be younger than its mapping else, see completer.ask
		h := startHelper(t, mode, root)
		drain(t, b)
		shows := "/bin/x"
		if mode == "chroot" {
			shows = filepath.Join(root, shows)
		}
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", h.pid())); err != nil || !strings.Contains(string(text), " "+shows+"\n") {
			t.Errorf("%s: /proc shows %s (%v)", mode, text, err)
		}
		n := checkProgram(t, b, h.pid())
		for range 2 {
			if err := b.Read(r, h.pid(), 0); err != nil {
				t.Fatal(err)
			}
			if again := checkProgram(t, b, h.pid()); again != n {
				t.Errorf("%s: a reading makes %d versions of %d", mode, again, n)
			}
		}
	}
}

// isDynamic reports whether a program needs a dynamic linker.
func isDynamic(t *testing.T, name string) bool {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// checkProgram checks that a process runs /bin/x, and returns how many versions
// it has.
func checkProgram(t *testing.T, b *Band, pid int) int {
	t.Helper()
	versions := b.History.Spaces.Space(pid).Versions()
	for m := range versions[len(versions)-1].Mappings.All() {
		if m.File.Name == "/bin/x" && m.Exact && !m.File.BuildID.IsZero() {
			return len(versions)
		}
	}
	for m := range versions[len(versions)-1].Mappings.All() {
		t.Errorf("process %d has %+v", pid, *m.File)
	}
	return 0
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
			if err := b.Read(r, os.Getpid(), 0); err != nil {
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
			for m := range v.Mappings.All() {
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

// lookAgain has the CPUs listed by the next Drain.
func lookAgain(b *Band, sys string) {
	b.hotplug = perf.NewHotplug(sys, b.Now()-tracefs.Time(time.Minute))
}

// TestHotplug: a CPU that goes on makes a gap, and so does one that goes off, which is let go.
func TestHotplug(t *testing.T) {
	sys := t.TempDir()
	online := func(list string) {
		t.Helper()
		name := filepath.Join(sys, perf.OnlineFile)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(list+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	real, err := perf.OnlineCPUs("/sys")
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
	lookAgain(b, sys)
	d, err := b.Drain()
	if err != nil || !d.Doubt || d.Lost != 0 || len(b.CPUs()) != 2 || len(b.FDs()) != 4 {
		t.Errorf("CPUs %v, %+v, %v", b.CPUs(), d, err)
	}
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	online(fmt.Sprint(second))
	lookAgain(b, sys)
	if d, err := b.Drain(); err != nil || !d.Doubt || d.Left != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(b.CPUs()); got != fmt.Sprint([]int{second}) {
		t.Errorf("CPUs %s", got)
	}
	online(fmt.Sprintf("%d,4095", second))
	lookAgain(b, sys)
	for i := range 3 { // no ring can be opened for that one, so what it does is unknown each time
		if d, err := b.Drain(); err != nil || !d.Doubt || (i == 0) != (d.Came == 1) {
			t.Errorf("%+v, %v", d, err)
		}
		if _, err := b.Refresh(r); err != nil {
			t.Fatal(err)
		}
	}
	online("none")
	lookAgain(b, sys)
	if _, err := b.Drain(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(space.New(), Options{Sys: t.TempDir()}); err == nil {
		t.Error("no list of CPUs, and no error")
	}
	online("4095")
	if _, err := Open(space.New(), Options{Sys: sys}); !errors.Is(err, perf.ErrUnsupported) {
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
	n := 0
	for range 100 { // what others do between two calls can make one ready again
		_, err := b.Drain()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = unix.Poll(list, 0) // which says that they were, and no more
		if n, err = unix.Poll(list, 0); n == 0 && err == nil {
			return
		}
	}
	t.Errorf("%d are ready", n)
}
