package futex_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// placedTrace is a report with lines of places.
type placedTrace struct {
	strings.Builder
	ms int
}

func newPlacedTrace() *placedTrace {
	s := new(placedTrace)
	s.WriteString(text.Head)
	return s
}

// place writes a line: of the process, and if path is set of a futex in a file's data.
func (s *placedTrace) place(p futex.Place, path string) {
	if path != "" {
		f := &filemap.File{Path: path}
		p.Layout = filemap.Layout{{Start: 0x1000, End: 0x2000, File: f}}
		if p.Trust == filemap.NoTrust {
			p.Trust = filemap.Verified
		}
	}
	s.Write(futex.AppendPlace(nil, &p))
}

func (s *placedTrace) event(tid int, body string) {
	fmt.Fprintf(s, "%16s-%-7d [000] ..... %5d.%03d000: %s\n", "t", tid, s.ms/1000, s.ms%1000, body)
	s.ms++
}

// wait has a thread wait for a futex.
func (s *placedTrace) wait(tid, addr int) {
	s.event(tid, fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", addr))
	s.ms += 5
	s.event(tid, "sys_futex -> 0x0")
}

// locksOf are the locks of a trace: how many waits, which variable, and whose.
func locksOf(t *testing.T, opt futex.Options, trace string) string {
	t.Helper()
	a := analyseText(t, opt, trace)
	a.NameLocks(ofFile{})
	r := a.Report(futex.View{})
	var got []string
	for _, l := range append(r.Locks, r.Signals...) {
		name := "-"
		if l.Variable != nil {
			name = strings.TrimPrefix(l.Variable.Name, "lock") + " " + l.VariableTrust.String()
		}
		of := "?"
		if p := l.Process; p != nil && p.TGID != tracefs.NoTID {
			of = fmt.Sprintf("%s-%d", p.Program, p.TGID)
		}
		got = append(got, fmt.Sprintf("%d %s in %s", l.Waits, name, of))
	}
	slices.Sort(got)
	return strings.Join(got, ", ")
}

// TestPlaces: the lines of a report name locks and processes, as long as they hold.
func TestPlaces(t *testing.T) {
	const x, y = 0x1010, 0x1020
	old := futex.Place{TID: 11, TGID: 10, Began: 1, Exact: true, Program: "old"}
	at := func(p futex.Place, addr uint64) futex.Place { p.Addr = addr; return p }
	of := func(p futex.Place, tid int32) futex.Place { p.TID = tid; return p }
	run := func(p futex.Place, began tracefs.Time, exact bool, program string) futex.Place {
		p.Began, p.Exact, p.Program = began, exact, program
		return p
	}
	other := futex.Place{TID: 11, TGID: 90, Began: 1, Exact: true, Program: "other"}
	for name, c := range map[string]struct {
		write func(s *placedTrace)
		want  string
	}{
		"a name": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.wait(11, x)
		}, "2 /a verified in old-10"},
		"two threads": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(of(old, 12), "")
			s.wait(12, x)
		}, "2 /a verified in old-10"},
		"two futexes, one in no data": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(at(old, y), "")
			s.wait(11, y)
		}, "1 - in old-10, 1 /a verified in old-10"},
		"weaker": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			late := at(old, x)
			late.Trust = filemap.Late
			s.place(late, "/a")
			s.wait(11, x)
			s.place(at(old, x), "/a") // what was late stays so
			s.wait(11, x)
		}, "3 /a late in old-10"},
		"another library": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(at(old, x), "/b")
			s.wait(11, x)
			s.wait(11, x)
		}, "1 /a verified in old-10, 2 /b verified in old-10"},
		"what is there is unknown": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(at(old, x), "")
			s.wait(11, x)
		}, "1 - in old-10, 1 /a verified in old-10"},
		"what was there is unknown": {func(s *placedTrace) {
			s.place(old, "")
			s.wait(11, x)
			s.place(at(old, x), "/a")
			s.wait(11, x)
		}, "1 - in old-10, 1 /a verified in old-10"},
		"the thread's number is used again": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(at(other, x), "/b")
			s.wait(11, x)
			s.place(other, "")
			s.wait(11, x)
		}, "1 /a verified in old-10, 2 /b verified in other-90"},
		"the thread's number is used again before it calls": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.place(at(other, y), "/b")
			s.wait(11, y)
			s.wait(11, x)
		}, "1 - in other-90, 1 /b verified in other-90"},
		"the number is of an unknown process": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(futex.Place{TID: 11}, "")
			s.wait(11, x)
			s.wait(11, x)
		}, "1 /a verified in old-10, 2 - in ?"},
		"it was unknown": {func(s *placedTrace) {
			s.wait(11, x)
			s.place(at(old, x), "/a")
			s.wait(11, x)
		}, "1 - in ?, 1 /a verified in old-10"},
		"exec": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(at(run(old, 1e6, true, "new"), x), "/b")
			s.wait(11, x)
		}, "1 /a verified in old-10, 1 /b verified in new-10"},
		"exec, with the same layout": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(at(run(old, 1e6, true, "new"), x), "/a")
			s.wait(11, x)
		}, "1 /a verified in new-10, 1 /a verified in old-10"},
		"exec, without a futex": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(run(old, 1e6, true, "new"), "")
			s.wait(11, x)
		}, "1 - in new-10, 1 /a verified in old-10"},
		"another program, since when is not exact": {func(s *placedTrace) {
			s.place(at(run(old, 1, false, "old"), x), "/a")
			s.wait(11, x)
			s.place(at(run(old, 2, false, "new"), x), "/a")
			s.wait(11, x)
		}, "1 /a verified in new-10, 1 /a verified in old-10"},
		"the number of the process is used again": {func(s *placedTrace) {
			s.place(of(at(old, x), 10), "/a")
			s.wait(10, x)
			s.place(of(at(run(old, 1e6, true, "new"), x), 10), "/b")
			s.wait(10, x)
			s.place(of(run(old, 1e6, true, "new"), 11), "")
			s.wait(11, x)
		}, "1 /a verified in old-10, 2 /b verified in new-10"},
		"fork": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(futex.Place{TID: 20, TGID: 20, Began: 5, Exact: true, Program: "old", Addr: x}, "/a")
			s.wait(20, x)
		}, "1 /a verified in old-10, 1 /a verified in old-20"},
		"a later line with another name of the program": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(of(run(old, 1, true, "renamed"), 12), "")
			s.wait(12, x)
		}, "2 /a verified in old-10"},
		"it cannot be read": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.WriteString(text.PlaceMark + "thread=x\n")
			s.wait(11, x)
			s.place(at(old, x), "/a")
			s.wait(11, x)
		}, "1 /a verified in old-10, 2 - in ?"},
		"a wakeup proves that a thread is of the process": {func(s *placedTrace) {
			s.wait(12, x) // of what then had the number
			s.place(at(old, x), "/a")
			s.event(12, fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", x))
			s.event(11, fmt.Sprintf("sys_futex(uaddr: 0x%x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)", x))
			s.event(12, "sys_futex -> 0x0")
			s.event(11, "sys_futex -> 0x1")
			s.wait(11, x)
		}, "1 /a verified in old-10, 2 - in ?"},
		"the thread with the number of the process has ended": {func(s *placedTrace) {
			s.place(at(old, x), "/a")
			s.wait(11, x)
			s.place(of(old, 10), "")
			s.wait(10, x)
			s.event(10, "sched_process_exit: comm=t pid=10 prio=120")
			s.place(of(old, 12), "")
			s.wait(12, x)
			s.place(of(at(old, x), 12), "/b")
			s.wait(12, x)
			s.wait(11, x)
		}, "2 /b verified in old-10, 3 /a verified in old-10"},
	} {
		s := newPlacedTrace()
		c.write(s)
		if got := locksOf(t, futex.Options{}, s.String()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPlacesOfOthers: what a program can write is no line of a place, and where there is other
// evidence none counts.
func TestPlacesOfOthers(t *testing.T) {
	s := newPlacedTrace()
	s.place(futex.Place{TID: 11, TGID: 10, Began: 1, Exact: true, Program: "p", Addr: 0x1010}, "/a")
	s.wait(11, 0x1010)
	for name, c := range map[string]struct {
		opt   futex.Options
		trace string
		want  string
	}{
		"the text of a kernel": {futex.Options{}, strings.TrimPrefix(s.String(), text.Head), "1 - in ?"},
		"a report":             {futex.Options{}, s.String(), "1 /a verified in p-10"},
		"with mappings":        {futex.Options{Mappings: oneProcess{}}, s.String(), "1 - in -10"},
		"with layouts":         {futex.Options{Layouts: changing{change: 1 << 62, unsure: 1 << 62}}, s.String(), "1 /one verified in ?"},
	} {
		if got := locksOf(t, c.opt, c.trace); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPlacesBounded: a hostile report cannot have much kept of its lines.
func TestPlacesBounded(t *testing.T) {
	s := newPlacedTrace()
	f := &filemap.File{Path: "/" + strings.Repeat("a", 4000)}
	for i := range 40_000 {
		f.Path = f.Path[:1000] + fmt.Sprint(i)
		p := futex.Place{TID: 11, TGID: 10, Began: 1, Program: "p", Addr: uint64(0x1000 + i), Trust: filemap.Verified}
		for k := range uint64(futex.MaxAreas) {
			p.Layout = append(p.Layout, filemap.Area{Start: 0x1000 * (k + 1), End: 0x1000 * (k + 2), File: f})
		}
		s.Write(futex.AppendPlace(nil, &p))
	}
	s.wait(11, 0x1000)
	var before, after runtime.MemStats
	in := s.String()
	runtime.GC()
	runtime.ReadMemStats(&before)
	a := analyseText(t, futex.Options{}, in)
	runtime.GC()
	runtime.ReadMemStats(&after)
	const most = 40 << 20
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > most {
		t.Errorf("%d bytes are kept", kept)
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(in)
}
