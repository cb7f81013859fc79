package futex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// signalledAt is a wait at a condition variable's word, and the signal.
func signalledAt(at int, addr uint64) string {
	return fmt.Sprintf(`
		10/9 0 %d sys_futex(uaddr: %#x, op: 0x189, val: 0, utime: 0, uaddr2: 0, val3: 0xffffffff)
		11/9 1 %d sys_futex(uaddr: %#x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
		11/9 1 %d sys_futex -> 0x1
		10/9 0 %d sys_futex -> 0x0
`, at, addr, at+50, addr, at+51, at+52)
}

// quiesced is a wait of a signaller until the waiters of the group before have left.
func quiesced(at int, addr uint64, op string, val, wakes int) string {
	return fmt.Sprintf(`
		11/9 1 %d sys_futex(uaddr: %#x, op: %s, val: %d, utime: 0, uaddr2: 0, val3: 0)
		10/9 0 %d sys_futex(uaddr: %#x, op: 0x81, val: %d, utime: 0, uaddr2: 0, val3: 0)
		10/9 0 %d sys_futex -> 0x1
		11/9 1 %d sys_futex -> 0x0
`, at, addr, op, val, at+20, addr, wakes, at+21, at+22)
}

// TestCondvarIsOneObject: all words of a condition variable of glibc are one row, and
// threads that wait at any of them do not contend for a lock.
func TestCondvarIsOneObject(t *testing.T) {
	const cond, all = 0x1000, 0x7fffffff
	pair := signalledAt(100, cond+0x28) + signalledAt(300, cond+0x2c)
	for _, c := range []struct {
		name    string
		text    string
		locks   int
		futexes []int // of the others
	}{
		{"its two words for signals", pair, 0, []int{2}},
		{"and both at which a signaller waits", pair + quiesced(500, cond+0x10, "0x80", 3, all) + quiesced(600, cond+0x14, "0x80", 5, all), 0, []int{4}},
		{"and its internal lock", pair + quiesced(500, cond+0x20, "0x80", 7, all), 0, []int{3}},
		{"a mutex there is one", pair + quiesced(500, cond+0x10, "0x80", 2, 1), 1, []int{2}},
		{"what wakes one is no word of it", pair + quiesced(500, cond+0x10, "0x80", 3, 1), 1, []int{2}},
		{"nor is what is elsewhere", pair + quiesced(500, cond+0x38, "0x80", 3, all), 1, []int{2}},
		{"two of them", pair + signalledAt(700, cond+0x58) + signalledAt(900, cond+0x5c), 0, []int{2, 2}},
	} {
		r := reportOf(t, c.text)
		var futexes []int
		for _, l := range r.Signals {
			futexes = append(futexes, l.Futexes)
		}
		if len(r.Locks) != c.locks || !slices.Equal(futexes, c.futexes) {
			t.Errorf("%s: %v", c.name, rows(r))
		}
		if n := waitsOf(r); n != strings.Count(c.text, "op: 0x189")+strings.Count(c.text, "op: 0x80") {
			t.Errorf("%s: %d waits", c.name, n)
		}
	}
}

// waitsOf counts the waits of all rows.
func waitsOf(r *futex.Report) int {
	n := 0
	for _, l := range slices.Concat(r.Locks, r.Signals) {
		n += int(l.Waits)
	}
	return n
}

// TestObjectsChangeNothing: a report that groups futexes leaves them as they are, so
// that the next one is the same.
func TestObjectsChangeNothing(t *testing.T) {
	a := analyseText(t, futex.Options{}, script(signalledAt(100, 0x1028)+signalledAt(300, 0x102c)+quiesced(500, 0x1010, "0x80", 3, 0x7fffffff)))
	first, second := a.Interim(futex.View{}), a.Interim(futex.View{})
	if len(first.Signals) != 1 || first.Signals[0].Waits != 3 {
		t.Fatalf("%v", rows(first))
	}
	if x, y := fmt.Sprint(rows(first), first.Signals[0].Flows, first.Signals[0].Histogram), fmt.Sprint(rows(second), second.Signals[0].Flows, second.Signals[0].Histogram); x != y {
		t.Errorf("first:\n%s\nsecond:\n%s", x, y)
	}
}

// TestRoles: locks of programs that are made of something else to the C library count as
// locks, and are one where threads have a futex each for all of them.
func TestRoles(t *testing.T) {
	const semaphore = "sys_futex(uaddr: %#x, op: 0x189, val: 0, utime: 0, uaddr2: 0, val3: 0xffffffff)"
	for _, c := range []struct {
		name  string
		path  string
		names asNames
		rows  int
		role  string
	}{
		{"threads have one each", "/usr/lib/postgresql/15/bin/postgres", asNames{"new_sem_wait_slow64", "PGSemaphoreLock", "LWLockAcquire", "main"}, 1, "LWLock"},
		{"one function inlined in another", "/usr/bin/postgres", asNames{"new_sem_wait_slow64", "LWLockWaitForVar<-LockAcquire", "main"}, 1, "LWLock"},
		{"all have the same", "/usr/bin/python3.11", asNames{"pthread_cond_timedwait", "take_gil", "PyEval_RestoreThread", "main"}, 2, "GIL"},
		{"another function", "/usr/bin/postgres", asNames{"new_sem_wait_slow64", "PGSemaphoreLock", "LWLockAcquireAll", "main"}, 2, ""},
		{"a function of that name in another program", "/usr/bin/worker", asNames{"new_sem_wait_slow64", "lock_wait", "main"}, 2, ""},
		{"and in the right one", "/usr/sbin/mariadbd", asNames{"new_sem_wait_slow64", "lock_wait", "main"}, 1, "InnoDB row lock"},
	} {
		trace := waitWith(fmt.Sprintf(semaphore, 0x1000), len(c.names), true) +
			waitAfter(waitWith(fmt.Sprintf(semaphore, 0x3000), len(c.names), true))
		trace = strings.ReplaceAll(trace, "/bin/p", c.path)
		a := analyseText(t, futex.Options{}, trace)
		a.Name(c.names)
		r := a.Report(futex.View{})
		list := slices.Concat(r.Locks, r.Signals)
		if len(list) != c.rows || list[0].Role != c.role || c.role != "" && len(r.Locks) != c.rows || waitsOf(r) != 2 {
			t.Errorf("%s: %v, role %q", c.name, rows(r), list[0].Role)
		}
	}
}

// waitAfter is a wait a second later.
func waitAfter(trace string) string { return strings.ReplaceAll(trace, "    0.", "    1.") }

// TestBy: rows of locks, objects, sites and kinds are of the same waits.
func TestBy(t *testing.T) {
	a := analyse(t, futex.Options{}, "../../testdata/captures/hash/pipe_default/trace.txt.zst")
	r := a.Report(futex.View{})
	want := fmt.Sprint(waitsOf(r), r.Contended.Time+r.Signalled.Time, holding(r))
	rowsOf := make(map[futex.By]int)
	for _, by := range []futex.By{futex.ByLock, futex.ByObject, futex.BySite, futex.ByKind} {
		r := a.Report(futex.View{By: by})
		if got := fmt.Sprint(waitsOf(r), r.Contended.Time+r.Signalled.Time, holding(r)); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
		list := slices.Concat(r.Locks, r.Signals)
		rowsOf[by] = len(list)
		futexes := 0
		for _, l := range list {
			futexes += l.Futexes
		}
		if futexes != rowsOf[futex.ByLock] {
			t.Errorf("by %s: %d futexes, want %d", by, futexes, rowsOf[futex.ByLock])
		}
	}
	if !(rowsOf[futex.ByLock] > rowsOf[futex.ByObject] && rowsOf[futex.ByObject] > rowsOf[futex.BySite] && rowsOf[futex.ByKind] > 1) {
		t.Errorf("rows: %v", rowsOf)
	}
}

// holding is the time for which any thread held a lock while another waited.
func holding(r *futex.Report) (sum tracefs.Time) {
	for _, l := range slices.Concat(r.Locks, r.Signals) {
		for _, h := range l.Holders {
			sum += h.Time
		}
	}
	return sum
}

// TestBlame: all time of waits is charged to something, also where records are lost, and
// of a mutex each owner's part to the call by which it released it.
func TestBlame(t *testing.T) {
	for _, name := range []string{"hash/pipe_default", "hash/lost", "stock/pipe_live"} {
		r := analyse(t, futex.Options{}, "../../testdata/captures/"+name+"/trace.txt.zst").Report(futex.View{})
		for _, l := range slices.Concat(r.Locks, r.Signals) {
			var sum tracefs.Time
			var count int64
			for _, s := range l.Blamed {
				sum, count = sum+s.Time, count+s.Count
			}
			if sum != l.Time || count != l.Slept {
				t.Errorf("%s: %s: %d in %d waits are charged, want %d in %d", name, l.Name(), sum, count, l.Time, l.Slept)
			}
		}
	}
	const (
		first, second = 0x1, 0x2
		wake          = "sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)"
	)
	line := func(tid, us int, text string) string {
		return fmt.Sprintf("             t%d-%d      [000] ..... %5d.%06d: %s\n", tid, tid, 0, us, text)
	}
	stack := func(tid, us, offset int) string {
		return line(tid, us, "<user stack trace>") + fmt.Sprintf(" =>  <%016x> : path=/bin/p build_id={0x1,0x2,0x3,0x4,0x5}\n", offset)
	}
	// 10 waits from 100 to 900. 11 releases at 400 and wakes no thread, 12 at 890.
	trace := line(10, 100, "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)") +
		line(11, 400, wake) + stack(11, 400, first) + line(11, 401, "sys_futex -> 0x0") +
		line(12, 890, wake) + stack(12, 890, second) + line(12, 891, "sys_futex -> 0x1") +
		line(10, 900, "sys_futex -> 0x0")
	r := analyseText(t, futex.Options{}, trace).Report(futex.View{})
	got := make(map[uint64]tracefs.Time)
	for _, s := range r.Locks[0].Blamed {
		if s.Stack != nil {
			got[s.Stack.Frames[0].Offset] = s.Time / 1000
		}
	}
	if got[first] != 300 || got[second] != 500 {
		t.Errorf("%v", got)
	}
}

// TestBlameChained: while the owner of a lock waits for another one, what waits for it is
// charged to the owner of that.
func TestBlameChained(t *testing.T) {
	const (
		inner, outer = 0x1, 0x2
		wait         = "sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"
		wake         = "sys_futex(uaddr: %#x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)"
	)
	var b strings.Builder
	line := func(tid, cpu, us int, format string, args ...any) {
		fmt.Fprintf(&b, "%16s-%-7d (     10) [%03d] ..... %5d.%06d: %s\n", fmt.Sprint("t", tid), tid, cpu, 0, us, fmt.Sprintf(format, args...))
	}
	off := func(tid, cpu, us, next int) {
		state := "S"
		if tid == 0 {
			state = "R"
		}
		line(tid, cpu, us, switchLine, tid, 120, state, next, 120)
	}
	stack := func(tid, cpu, us, offset int) {
		line(tid, cpu, us, "<user stack trace>")
		fmt.Fprintf(&b, " =>  <%016x> : path=/bin/p build_id={0x1,0x2,0x3,0x4,0x5}\n", offset)
	}
	woken := func(tid, us, from int) { // each on its CPU
		line(tid, tid-10, us, "sys_futex -> 0x0")
		line(from, from-10, us, "sys_futex -> 0x1")
	}
	// 11 owns 0x1000 and waits for 0x2000 of 12, asleep from 201 to 800; 10 waits for 0x1000 from 100
	// to 900.
	for i, tid := range []int{10, 11, 12} {
		off(0, i, 50+i, tid)
		off(tid, i, 60+i, 0) // only of threads with switches that fit is known what they do
		off(0, i, 70+i, tid)
	}
	line(10, 0, 100, wait, 0x1000)
	off(10, 0, 101, 0)
	line(11, 1, 200, wait, 0x2000)
	off(11, 1, 201, 0)
	line(12, 2, 800, wake, 0x2000)
	stack(12, 2, 800, inner)
	line(12, 2, 801, "sched_waking: comm=a pid=11 prio=120 target_cpu=001")
	off(0, 1, 801, 11)
	woken(11, 802, 12)
	line(11, 1, 900, wake, 0x1000)
	stack(11, 1, 900, outer)
	line(11, 1, 901, "sched_waking: comm=a pid=10 prio=120 target_cpu=000")
	off(0, 0, 901, 10)
	woken(10, 902, 11)
	for _, l := range analyseText(t, futex.Options{}, b.String()).Report(futex.View{}).Locks {
		got := make(map[uint64]tracefs.Time)
		for _, s := range l.Blamed {
			if s.Stack != nil {
				got[s.Stack.Frames[0].Offset] = s.Time / 1000
			}
		}
		switch {
		case l.Address == 0x1000 && (got[inner] != 599 || got[outer] != l.Time/1000-599):
			t.Errorf("of %d, charged %v", l.Time, got)
		case l.Address == 0x2000 && (got[inner] != l.Time/1000 || got[outer] != 0):
			t.Errorf("of %d, charged %v", l.Time, got)
		}
	}
}

// TestByAuto: a place in the code with many locks is the row if none of these has most of
// the waiting; else the objects are. Sums stay the same.
func TestByAuto(t *testing.T) {
	for _, c := range []struct {
		name  string
		locks int
		long  int // how many times as long the waits of the first lock are
		want  futex.By
	}{{"many locks", 12, 1, futex.BySite}, {"few locks", 6, 1, futex.ByObject}, {"one with most", 12, 20, futex.ByObject}} {
		var text strings.Builder
		for n := range c.locks {
			took := 100
			if n == 0 {
				took *= c.long
			}
			trace := waitWith(fmt.Sprintf("sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", 0x1000*(n+1)), 3, true)
			trace = strings.ReplaceAll(trace, "    0.", fmt.Sprintf("%5d.", n)) // a second each
			text.WriteString(strings.ReplaceAll(trace, ".000900", fmt.Sprintf(".%06d", 101+took)))
		}
		a := analyseText(t, futex.Options{}, text.String())
		r, plain := a.Interim(futex.View{By: futex.ByAuto}), a.Interim(futex.View{})
		if r.By != c.want || r.Contended != plain.Contended || len(r.Locks) == 0 {
			t.Errorf("%s: by %s, %d rows, %+v, want %+v", c.name, r.By, len(r.Locks), r.Contended, plain.Contended)
		}
		if said := slices.ContainsFunc(r.Hints, func(s string) bool { return strings.Contains(s, "--by=object") }); said != (c.want == futex.BySite) {
			t.Errorf("%s: hints %q", c.name, r.Hints)
		}
	}
}
