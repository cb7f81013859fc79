package procmap

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs/capturetest"
)

// load starts processes that end at once, and others that execute a program
// again and again, until the test ends.
func load(t *testing.T) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, script := range []string{"exit 0", "sh -c 'exit 0' & sh -c 'sleep 0.01' & wait", "exec cat < /dev/null", "ls / > /dev/null | cat"} {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := exec.Command("sh", "-c", script).Run(); err != nil {
						t.Errorf("running %q: %v", script, err)
						return
					}
				}
			}
		})
	}
	t.Cleanup(func() { close(stop); wg.Wait() })
}

// loadTime is how long tests go on under load.
func loadTime(t *testing.T) time.Duration {
	if capturetest.Brief() {
		return 500 * time.Millisecond
	}
	return 3 * time.Second
}

// TestSourcesAgree: for every process the ioctl and the parsed text give what
// /proc/PID/maps shows, while processes start, execute and end all the time.
// Those whose text is not the same before and after are left out.
func TestSourcesAgree(t *testing.T) {
	capturetest.SkipShort(t)
	for _, filter := range []struct {
		perms string
		Filter
	}{{"x", Filter{Perms: Exec}}, {"", Filter{}}} {
		t.Run("perms "+filter.perms, func(t *testing.T) {
			readers := []*Reader{needIoctl(t, Options{Filter: filter.Filter}), needText(t, Options{Filter: filter.Filter})}
			load(t)
			var compared, changed, rows int
			kinds := map[string]int{}
			for end := time.Now().Add(loadTime(t)); time.Now().Before(end); {
				pids, err := readers[0].PIDs()
				if err != nil {
					t.Fatal(err)
				}
				for _, pid := range slices.Clone(pids) {
					c := comparison{pid: pid, perms: filter.perms}
					for tries := 0; tries < 20 && c.again(readers, kinds); tries++ {
					}
					switch {
					case c.changed:
						changed++
						continue
					case c.differs != "":
						t.Error(c.differs)
					}
					compared++
					rows += c.rows
				}
				if t.Failed() {
					return
				}
			}
			t.Logf("compared %d processes with %d rows, left out %d that changed; kinds %v", compared, rows, changed, kinds)
			if compared == 0 || rows == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

// comparison holds what readers give of a process against its text.
type comparison struct {
	pid     int
	perms   string
	rows    int
	changed bool
	differs string // how the last one did, "" if it did not
}

// again compares, and reports whether there was a difference: a process that maps
// something and unmaps it again can have the same text before and after, and
// another one between. It does not have so over and over.
func (c *comparison) again(readers []*Reader, kinds map[string]int) bool {
	c.differs, c.changed = "", false
	as := c.pid
	if tid, ok := readers[0].heir(c.pid); ok {
		as = tid // what /proc shows of the process is nothing
	}
	before, err := rawLines(as, c.perms)
	if err != nil {
		c.changed = true
		return false
	}
	var got [2][]string
	var errs [2]error
	var p Process
	for i, r := range readers {
		if errs[i] = r.Process(c.pid, &p); errs[i] == nil {
			got[i] = ourLines(&p)
			for _, m := range p.Mappings {
				kinds[m.Kind.String()]++
			}
		}
	}
	after, err := rawLines(as, c.perms)
	if err != nil || !slices.Equal(before, after) {
		c.changed = true
		return false
	}
	c.rows = len(before)
	for i, r := range readers {
		switch {
		case len(before) == 0 && (errorIs(errs[i], ErrNoMemory) || errorIs(errs[i], ErrGone)):
		case errs[i] != nil:
			c.differs = fmt.Sprintf("process %d by %v: %v, but its text did not change", c.pid, r.Source(), errs[i])
		case !slices.Equal(got[i], before):
			c.differs = fmt.Sprintf("process %d by %v:\n%s\ninstead of\n%s", c.pid, r.Source(), strings.Join(got[i], "\n"), strings.Join(before, "\n"))
		}
	}
	return c.differs != ""
}

// TestWalkUnderLoad: a walk never fails because of a process, and counts each.
func TestWalkUnderLoad(t *testing.T) {
	capturetest.SkipShort(t)
	bothSources(t, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(nil), Stat: true}, func(t *testing.T, r *Reader) {
		load(t)
		var all Counts
		for end := time.Now().Add(loadTime(t)); time.Now().Before(end); {
			calls, last, held := 0, 0, 0
			c, err := r.Walk(nil, func(p *Process, err error) error {
				calls++
				if errorIs(err, errHeld) {
					held++ // it waits for a CPU in the middle of execve(2)
				}
				if p.PID <= last {
					t.Errorf("process %d comes after %d", p.PID, last)
				}
				last = p.PID
				if err == nil && (len(p.Mappings) == 0 || p.Stat.StartTime == 0 && p.PID > 1) {
					t.Errorf("process %d %q has %d mappings, start time %d", p.PID, p.Stat.Comm, len(p.Mappings), p.Stat.StartTime)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if sum := c.Processes + c.NoMemory + c.Gone + c.Denied + c.Failed; sum != calls {
				t.Errorf("%d processes, but the counts are %+v", calls, c)
			}
			if c.Failed > held {
				t.Errorf("failed: %v", c.Err)
			}
			all.Processes, all.Gone, all.NoMemory, all.Denied = all.Processes+c.Processes, all.Gone+c.Gone, all.NoMemory+c.NoMemory, all.Denied+c.Denied
		}
		t.Logf("%+v", all)
	})
}

// TestWalkEnds: an error of the function ends the walk.
func TestWalkEnds(t *testing.T) {
	r := needText(t, Options{})
	calls := 0
	_, err := r.Walk(nil, func(*Process, error) error { calls++; return io.ErrClosedPipe })
	if !errorIs(err, io.ErrClosedPipe) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	if _, err := needText(t, Options{Proc: "/nowhere"}).Walk(nil, nil); err == nil {
		t.Error("no error without proc")
	}
}

// TestExecLoop: a process that executes a program all the time is read whole,
// old or new, never half of each.
func TestExecLoop(t *testing.T) {
	capturetest.SkipShort(t)
	script := filepath.Join(t.TempDir(), "loop.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	bothSources(t, Options{}, func(t *testing.T, r *Reader) {
		var whole, gone, other int
		var p Process
		for end := time.Now().Add(loadTime(t)); time.Now().Before(end); {
			if err := r.Process(cmd.Process.Pid, &p); err != nil {
				if !errorIs(err, ErrGone) && !errorIs(err, ErrNoMemory) && !errorIs(err, errHeld) {
					t.Fatal(err)
				}
				gone++ // it executed twice while we looked, or waits for a CPU in the middle
				continue
			}
			stacks := map[string]int{}
			for _, m := range p.Mappings {
				stacks[m.Name]++
			}
			switch {
			case stacks["[vdso]"] > 1 || stacks["[stack]"] > 1 || stacks["[vsyscall]"] > 1:
				t.Fatalf("two programs in one:\n%s", strings.Join(ourLines(&p), "\n"))
			case stacks["[vdso]"] == 1 && stacks["[stack]"] == 1:
				whole++
			default:
				other++ // in the middle of execve(2)
			}
		}
		t.Logf("%d whole, %d early, %d gone", whole, other, gone)
		if whole == 0 {
			t.Error("never read whole")
		}
	})
}

// TestManyMappings: a process near the limit of mappings.
func TestManyMappings(t *testing.T) {
	capturetest.SkipShort(t)
	limit, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if n, cerr := strconv.Atoi(strings.TrimSpace(string(limit))); err != nil || cerr != nil || n < manyMappings+500 {
		t.Skipf("vm.max_map_count is %s", limit)
	}
	h := startHelper(t, "many")
	bothSources(t, Options{}, func(t *testing.T, r *Reader) {
		var p Process
		var lines []string
		for range 20 { // the helper's runtime may map a thing of its own in between
			start := time.Now()
			if err := r.Process(h.pid, &p); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d mappings in %v", len(p.Mappings), time.Since(start))
			if lines, err = rawLines(h.pid, ""); err != nil {
				t.Fatal(err)
			}
			if len(lines) >= manyMappings && slices.Equal(ourLines(&p), lines) {
				return
			}
		}
		t.Errorf("%d mappings, %d lines of text", len(p.Mappings), len(lines))
	})
}

// TestNoGarbage: a mapping more costs no memory more.
func TestNoGarbage(t *testing.T) {
	libraries := systemLibraries(t, 60)
	few, many := startHelper(t, "libraries", libraries[:1]...), startHelper(t, "libraries", slices.Repeat(libraries, 10)...)
	bothSources(t, Options{IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
		var p Process
		count := func(pid int) (mappings int, allocs float64) {
			if err := r.Process(pid, &p); err != nil { // to have its memory
				t.Fatal(err)
			}
			r.opt.IDs.nextRound()
			for i := range p.Mappings {
				r.opt.IDs.answer(question{guarded: true, forgets: r.opt.IDs.forgets}, &p.Mappings[i])
			}
			allocs = testing.AllocsPerRun(5, func() {
				if err := r.Process(pid, &p); err != nil {
					t.Error(err)
				}
			})
			return len(p.Mappings), allocs
		}
		n1, allocs1 := count(few.pid)
		n2, allocs2 := count(many.pid)
		t.Logf("%d mappings: %v allocations; %d mappings: %v", n1, allocs1, n2, allocs2)
		if n2 < n1+1000 || allocs2 > allocs1 || allocs2 > 5 {
			t.Errorf("%d mappings take %v allocations, %d take %v", n1, allocs1, n2, allocs2)
		}
	})
}

// TestPIDReuse: the state that comes with mappings is of the same process.
func TestPIDReuse(t *testing.T) {
	needRoot(t)
	r := needText(t, Options{Stat: true})
	first := exec.Command("sleep", "100")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	pid := first.Process.Pid
	h, err := r.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	before, err := r.Stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	first.Process.Kill()
	first.Wait()
	time.Sleep(20 * time.Millisecond) // start times are in ticks of 10 ms
	second := startWithPID(t, pid)
	after, err := r.Stat(second.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if before.StartTime == after.StartTime {
		t.Errorf("two processes %d began at %d", pid, before.StartTime)
	}
	if err := h.Each(func(m *Mapping) bool { t.Errorf("the first process still has %+v", m); return false }); !errorIs(err, ErrGone) {
		t.Errorf("the memory of the first process: %v", err)
	}
}

// startWithPID starts a process with this PID, which is free.
func startWithPID(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	for range 200 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0o644); err != nil {
			t.Skipf("choosing a PID needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN: %v", err)
		}
		cmd := exec.Command("sleep", "100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		if cmd.Process.Pid == pid {
			return cmd
		}
	}
	t.Skip("another process always took the PID")
	return nil
}

// TestThreads: threads are listed, and a thread's number is no process of the
// walk.
func TestThreads(t *testing.T) {
	r := needText(t, Options{})
	tids, err := r.Threads(os.Getpid())
	if err != nil || !slices.Contains(tids, os.Getpid()) || !slices.Contains(tids, unix.Gettid()) || !slices.IsSorted(tids) {
		t.Errorf("threads %v, %v", tids, err)
	}
	if got, want := r.Exe(os.Getpid()), "procmap.test"; filepath.Base(got) != want {
		t.Errorf("the program is %q", got)
	}
	if _, err := r.Threads(1 << 30); err == nil || !strings.Contains(err.Error(), fmt.Sprint(1<<30)) {
		t.Errorf("threads of a PID without a process: %v", err)
	}
}

// TestNext looks at flags of single queries.
func TestNext(t *testing.T) {
	addr := mapFD(t, -1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	bothSources(t, Options{Filter: Filter{Perms: Exec, Files: true}}, func(t *testing.T, r *Reader) {
		h, err := r.Open(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if m, ok, err := h.At(addr); ok || err != nil {
			t.Errorf("a filter on files lets through %+v (%v)", m, err)
		}
		m, ok, err := h.Next(0)
		if !ok || err != nil || m.Perms&Exec == 0 || m.Inode == 0 {
			t.Errorf("the first executable mapping of a file is %+v, %v, %v", m, ok, err)
		}
		if again, ok, err := h.At(m.End - 1); !ok || err != nil || again != m {
			t.Errorf("at its last byte is %+v, %v, %v", again, ok, err)
		}
		if other, _, _ := h.At(m.End); other == m {
			t.Error("the end of a mapping is in it")
		}
		if m, ok, err := h.Next(1<<64 - 4096); ok || err != nil {
			t.Errorf("after all there is %+v, %v", m, err)
		}
	})
}
