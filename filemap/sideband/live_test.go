package sideband

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
)

// skip skips a test that needs more than this machine has, or fails it where
// that must not be.
func skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("USTACK_LIVE") == "must" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// roomy is a ring that has room for what a busy machine does while a test waits for a
// CPU.
const roomy = 16 * DefaultRing

// openBand opens a side band and reads all processes, or skips the test.
func openBand(t testing.TB, opt Options) (*Band, *procmap.Reader) {
	t.Helper()
	if opt.RingSize == 0 {
		opt.RingSize = roomy
	}
	if root, err := instance.Find(""); err == nil && opt.Tracepoints == nil {
		opt.Tracepoints = Tracepoints(root)
	}
	b, err := Open(space.New(), opt)
	if errors.Is(err, perf.ErrDenied) || errors.Is(err, perf.ErrUnsupported) {
		skip(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: procmap.NewIDs(nil), Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Refresh(r); err != nil {
		t.Fatal(err)
	}
	return b, r
}

// drain drains, and wants no loss.
func drain(t testing.TB, b *Band) Drained {
	t.Helper()
	d, err := b.Drain()
	if err != nil {
		t.Fatal(err)
	}
	if d.Lost > 0 || d.Malformed > 0 || d.Doubt {
		t.Fatalf("lost: %+v", d)
	}
	return d
}

// TestOurselves: our code, right after the start.
func TestOurselves(t *testing.T) {
	b, _ := openBand(t, Options{})
	pc, _, _, _ := runtime.Caller(0)
	p, ok := b.History.Lookup(os.Getpid(), uint64(pc), b.Now())
	if !ok || p.Late || p.Doubtful || p.PID != os.Getpid() || filepath.Base(p.Mapping.File.Name) != "sideband.test" {
		t.Errorf("our code is in %+v, %v", p, ok)
	}
	if p, ok := b.History.Lookup(1<<30, uint64(pc), b.Now()); ok {
		t.Errorf("a thread that is none has %+v", p)
	}
}

// showMaps makes a process show its own mappings, after its line of
// /proc/PID/stat.
const showMaps = "cat /proc/self/stat /proc/self/maps"

// shown are the mappings that processes have shown, those of code.
type shown struct {
	pid int
	ms  []procmap.Mapping
}

// parseShown reads the output of showMaps, any number of times.
func parseShown(t testing.TB, text []byte) []shown {
	t.Helper()
	var list []shown
	for line := range bytes.Lines(text) {
		m, err := procmap.ParseLine(line)
		if err != nil {
			var s shown
			if _, err := fmt.Sscanf(string(line), "%d (", &s.pid); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			list = append(list, s)
			continue
		}
		if m.Perms&procmap.Exec != 0 && m.Kind != procmap.Vsyscall {
			last := &list[len(list)-1]
			last.ms = append(last.ms, m)
		}
	}
	return list
}

// checkShown holds what is known of a process against what it has shown. ended
// means that it has ended.
func checkShown(t testing.TB, b *Band, s shown, ended bool) {
	t.Helper()
	versions := b.History.Spaces.Space(s.pid).Versions()
	if len(versions) == 0 {
		t.Errorf("process %d is unknown", s.pid)
		return
	}
	v := &versions[len(versions)-1]
	n := 0
	for m := range v.Mappings.All() {
		if m.File.Kind != procmap.Vsyscall { // only readings find that
			n++
		}
	}
	if (v.To != space.Forever) != ended || n != len(s.ms) {
		t.Errorf("process %d until %d: %+v, want %v", s.pid, v.To, slices.Collect(v.Mappings.All()), s.ms)
	}
	for i := range s.ms {
		checkMapping(t, b, s.pid, &s.ms[i], min(v.To-1, b.Now()))
	}
}

// checkMapping checks that all of a mapping is known at t, exactly, and not
// before it was there.
func checkMapping(t testing.TB, b *Band, pid int, m *procmap.Mapping, at tracefs.Time) {
	t.Helper()
	for _, addr := range []uint64{m.Start, (m.Start + m.End) / 2, m.End - 1} {
		p, ok := b.History.Lookup(pid, addr, at)
		if !ok || p.Late || p.Doubtful || !p.Mapping.Exact || p.PID != pid || p.Mapping.File.Name != m.Name || p.Mapping.File.Kind != m.Kind ||
			p.Mapping.Perms != m.Perms || m.Inode != 0 && p.Offset != m.FileOffset(addr) {
			t.Errorf("process %d: %#x is in %+v, %v, want %+v", pid, addr, p, ok, m)
			continue
		}
		if want := buildID(t, m.Name); p.Mapping.File.BuildID != want {
			t.Errorf("%s has the build ID %s, want %s", m.Name, p.Mapping.File.BuildID.Hex(), want.Hex())
		}
		if p, ok := b.History.Lookup(pid, addr, p.Mapping.Since-1); ok && p.Mapping.File.Name == m.Name && p.Mapping.Start == m.Start && p.Late {
			t.Errorf("process %d: %#x was in %+v before that was there", pid, addr, p)
		}
	}
}

var buildIDs sync.Map

// buildID is that of a file, the zero ID if it is none.
func buildID(t testing.TB, name string) elfid.ID {
	if id, ok := buildIDs.Load(name); ok {
		return id.(elfid.ID)
	}
	f, err := os.Open(name)
	if err != nil {
		return elfid.ID{}
	}
	defer f.Close()
	id, err := elfid.Read(f)
	if err != nil {
		id = elfid.ID{}
	}
	buildIDs.Store(name, id)
	return id
}

// TestExecs: 200 programs, one after the other (by vfork: package os/exec).
func TestExecs(t *testing.T) {
	b, _ := openBand(t, Options{})
	for range 200 {
		cmd := exec.Command("sh", "-c", "exec "+showMaps)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		drain(t, b)
		list := parseShown(t, out)
		if len(list) != 1 || list[0].pid != cmd.Process.Pid || len(list[0].ms) < 3 {
			t.Fatalf("the program shows %s", out)
		}
		checkShown(t, b, list[0], true)
		if t.Failed() {
			break
		}
	}
}

// TestStorm: processes that live a few milliseconds, several at a time, some
// without executing a program.
func TestStorm(t *testing.T) {
	b, _ := openBand(t, Options{})
	const script = `i=0; while [ $i -lt 60 ]; do i=$((i+1)); ` + showMaps +
		`; (read l </proc/self/stat; echo "$l"; while IFS= read -r l; do echo "$l"; done </proc/self/maps); done`
	outs := make([][]byte, 3)
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() {
			var err error
			if outs[i], err = exec.Command("sh", "-c", script).Output(); err != nil {
				t.Error(err)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		wg.Wait()
		close(over)
	}()
	for running := true; running; { // as others map, too, and the rings have only so much room
		select {
		case <-over:
			running = false
		case <-time.After(10 * time.Millisecond):
		}
		drain(t, b)
	}
	n := 0
	for _, out := range outs {
		for _, s := range parseShown(t, out) {
			checkShown(t, b, s, true)
			n++
		}
	}
	if n != len(outs)*120 {
		t.Errorf("%d processes have shown their mappings", n)
	}
	t.Logf("%d processes", n)
}

// TestStartInStorm: what began while all processes were read is known as well.
func TestStartInStorm(t *testing.T) {
	const script = `while [ ! -e "$0" ]; do ` + showMaps + `; done; read x`
	end := filepath.Join(t.TempDir(), "end")
	var outs [2]bytes.Buffer
	var cmds [2]*exec.Cmd
	for i := range cmds {
		cmds[i] = exec.Command("sh", "-c", script, end)
		cmds[i].Stdout = &outs[i]
		in, err := cmds[i].StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // also where the test is skipped
			in.Close()
			_ = cmds[i].Process.Kill()
			_ = cmds[i].Wait()
		})
	}
	b, r := openBand(t, Options{})
	for range 5 {
		if _, err := b.Refresh(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	if b.breaks+b.unseen > 0 {
		t.Skip("records were lost while all processes were read: the machine is too busy for this")
	}
	for _, cmd := range cmds {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			m, err := procmap.ParseLine(line)
			if err != nil {
				t.Fatal(err)
			}
			p, ok := b.History.Lookup(cmd.Process.Pid, m.Start, b.Now())
			if want := m.Perms&procmap.Exec != 0; ok != want || ok && (p.Late || p.Offset != m.Offset && m.Inode != 0 || p.Mapping.File.Name != m.Name) {
				t.Errorf("%s: %+v, %v", line, p, ok)
			}
		}
		cmd.Process.Kill()
		_ = cmd.Wait()
	}
	drain(t, b)
	n := 0
	for i := range outs {
		for _, s := range parseShown(t, outs[i].Bytes()) {
			// Those of before are not known, and those of which the end of the
			// text is missing.
			v := b.History.Spaces.Space(s.pid).Versions()
			if len(s.ms) > 3 && len(v) > 0 && v[0].Exact && v[len(v)-1].Exact {
				checkShown(t, b, s, v[len(v)-1].To != space.Forever) // the last one may still be ending
				n++
				if t.Failed() {
					return // there can be thousands
				}
			}
		}
	}
	if n == 0 {
		t.Error("no process began meanwhile")
	}
	t.Logf("%d processes began meanwhile or after", n)
}

// TestMappings: all ways to get executable memory, with their times.
func TestMappings(t *testing.T) {
	b, r := openBand(t, Options{})
	lib := mappedLibrary(t)
	h := startHelper(t, "map", lib)
	drain(t, b)
	find := func(what string, addr uint64) (Place, bool) { return b.History.Lookup(h.pid(), addr, b.Now()) }
	for what, want := range map[string]struct {
		kind procmap.Kind
		name string
	}{
		"file": {procmap.File, lib}, "jit": {procmap.Anonymous, ""}, "made": {procmap.Anonymous, ""}, "named": {procmap.Anonymous, ""},
		"flip": {procmap.Anonymous, ""}, "memfd": {procmap.Memfd, "/memfd:my memfd (deleted)"},
	} {
		m := h.memory(t, what)
		p, ok := find(what, m.addr)
		if !ok || p.Late || p.Mapping.File.Kind != want.kind || p.Mapping.File.Name != want.name || p.Mapping.Start != m.addr || p.Mapping.End != m.addr+m.size {
			t.Errorf("%s is in %+v, %v", what, p, ok)
			continue
		}
		if since := int64(p.Mapping.Since); !p.Mapping.Exact || since < m.from || since > m.to {
			t.Errorf("%s came at %d (exact: %v), between %d and %d", what, since, p.Mapping.Exact, m.from, m.to)
		}
		if p, ok := b.History.Lookup(h.pid(), m.addr, tracefs.Time(m.from)); ok {
			t.Errorf("%s is in %+v %+v before it was made", what, *p.Mapping, *p.Mapping.File)
		}
	}
	if n := len(b.History.Spaces.Space(h.pid()).Versions()); n > 3 {
		t.Errorf("memory that changes back and forth makes %d versions", n)
	}

	// A reading shows what the kernel does not report.
	if err := b.Read(r, h.pid(), 0); err != nil {
		t.Fatal(err)
	}
	moved, there := h.memory(t, "moved"), h.memory(t, "there")
	if p, ok := find("moved", moved.addr); ok {
		t.Errorf("what was moved away is in %+v %+v", *p.Mapping, *p.Mapping.File)
	}
	if p, ok := find("there", there.addr); !ok || p.Mapping.File.Kind != procmap.Anonymous {
		t.Errorf("what was moved there is in %+v, %v", p, ok)
	}
	m := h.memory(t, "named")
	if p, ok := find("named", m.addr); !ok || p.Mapping.File.Name != "[anon:my jit]" && p.Mapping.File.Name != "" || !p.Mapping.Exact {
		t.Errorf("named memory is in %+v, %v", p, ok)
	}
	m = h.memory(t, "file")
	if p, ok := find("file", m.addr); !ok || !p.Mapping.Exact || p.Mapping.File.Inode == 0 || p.Mapping.File.BuildID != buildID(t, lib) {
		t.Errorf("after a reading, a file is %+v in %+v, %v", p.Mapping.File, p, ok)
	}
}

// mappedLibrary is the C library, or what else we find that is an ELF file.
func mappedLibrary(t testing.TB) string {
	t.Helper()
	for _, pattern := range []string{"/usr/lib/*-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6", "/bin/busybox", "/bin/sh"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			if path, err := filepath.EvalSymlinks(name); err == nil && !buildID(t, path).IsZero() {
				return path
			}
		}
	}
	t.Skip("no library with a build ID on this machine")
	return ""
}

// TestReadelf: build IDs are the same as readelf's.
func TestReadelf(t *testing.T) {
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("no readelf on this machine")
	}
	b, _ := openBand(t, Options{})
	cmd := exec.Command("sh", "-c", "exec "+showMaps)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	n := 0
	versions := b.History.Spaces.Space(cmd.Process.Pid).Versions()
	for m := range versions[len(versions)-1].Mappings.All() {
		if m.File.Kind != procmap.File {
			continue
		}
		out, err := exec.Command(readelf, "-n", m.File.Name).Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(out), "Build ID: "+m.File.BuildID.Hex()+"\n") {
			t.Errorf("%s: build ID %s, readelf says\n%s", m.File.Name, m.File.BuildID.Hex(), out)
		}
		n++
	}
	if n < 2 {
		t.Errorf("%d files: %+v", n, versions)
	}
}

// TestThreads: threads that came before and after us, and their ends.
func TestThreads(t *testing.T) {
	before := startHelper(t, "thread")
	b, _ := openBand(t, Options{})
	after := startHelper(t, "thread")
	drain(t, b)
	for _, h := range []*helper{before, after} {
		for i, line := range h.said["thread"] {
			var tid int
			var from, to tracefs.Time
			if _, err := fmt.Sscan(line, &tid, &from, &to); err != nil {
				t.Fatal(err)
			}
			pid, late, ok := b.History.Threads.PID(tid, to)
			switch {
			case h == after && (!ok || late || pid != h.pid()), h == before && i%2 == 0 && (!ok || pid != h.pid()):
				t.Errorf("thread %d of %d is of %d, late %v, %v", tid, h.pid(), pid, late, ok)
			}
		}
		live := b.History.Threads.Live(h.pid())
		if tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", h.pid())); err != nil || live < 10 || live > len(tasks)+1 {
			t.Errorf("%d threads live, %d by /proc (%v)", live, len(tasks), err)
		}
		h.stop()
	}
	drain(t, b)
	for _, h := range []*helper{before, after} {
		if n := b.History.Threads.Live(h.pid()); n > 0 {
			t.Errorf("%d threads have outlived their process", n)
		}
		if v := b.History.Spaces.Space(h.pid()).Versions(); v[len(v)-1].To == space.Forever {
			t.Errorf("process %d has not ended", h.pid())
		}
	}
}

// TestExecByThread: a thread that is not the first executes a program, and is
// the first one then.
func TestExecByThread(t *testing.T) {
	b, _ := openBand(t, Options{})
	cmd := exec.Command("/proc/self/exe", "sh", "-c", showMaps)
	cmd.Env = append(os.Environ(), helperMode+"=exec")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	head, rest, _ := bytes.Cut(out, []byte("\n"))
	var tid int
	if _, err := fmt.Sscanf(string(head), "tid %d", &tid); err != nil || tid == cmd.Process.Pid {
		t.Fatalf("the thread says %q, of process %d (%v)", head, cmd.Process.Pid, err)
	}
	list := parseShown(t, rest)
	if len(list) != 1 {
		t.Fatalf("%s", rest)
	}
	checkShown(t, b, list[0], true)
	var execs []tracefs.Time
	for _, v := range b.History.Spaces.Space(cmd.Process.Pid).Versions() {
		if v.Fresh && v.Exact {
			execs = append(execs, v.From)
		}
	}
	last := execs[len(execs)-1]
	if pid, late, ok := b.History.Threads.PID(tid, last-1); pid != cmd.Process.Pid || late || !ok {
		t.Errorf("before, thread %d was of %d, %v, %v", tid, pid, late, ok)
	}
	if pid, _, ok := b.History.Threads.PID(tid, last); ok {
		t.Errorf("thread %d is still of %d", tid, pid)
	}
	if pid, late, ok := b.History.Threads.PID(cmd.Process.Pid, last); pid != cmd.Process.Pid || late || !ok {
		t.Errorf("the process is of %d, %v, %v", pid, late, ok)
	}
}
