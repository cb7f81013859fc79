package futex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// oneProcess is a process of which thread 10 is one, and that became other programs at
// some times. Those before a time are not known exactly.
type oneProcess struct {
	execs []tracefs.Time
	known tracefs.Time
}

func (p oneProcess) Process(int32) (int32, bool) { return 10, true }

func (p oneProcess) SharedFile(int32, tracefs.Time, bool, uint64) (string, string, uint64, bool) {
	return "", "", 0, false
}

func (p oneProcess) Program(_ int32, at tracefs.Time) (began tracefs.Time, ok bool) {
	for _, t := range p.execs {
		if t <= at {
			began = t
		}
	}
	return began, began >= p.known
}

func (p oneProcess) ProcessAt(int32, tracefs.Time) (int32, bool) { return 7, true }

func (p oneProcess) Name(int32, tracefs.Time) string { return "one" }

// TestProgramsOfLocks: at one address of one process, programs that follow each other
// have a lock each, although the trace has no event of their exec.
func TestProgramsOfLocks(t *testing.T) {
	const wait = "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)"
	var in strings.Builder
	for _, second := range []string{"0", "1", "2", "3"} {
		in.WriteString(strings.ReplaceAll(waitWith(wait, 1, true), "    0.000", "    "+second+".000"))
	}
	const second = tracefs.Time(1e9)
	for name, c := range map[string]struct {
		execs []tracefs.Time
		known tracefs.Time
		want  []int64 // waits of each lock
	}{
		"one program":                 {nil, 0, []int64{4}},
		"three programs":              {[]tracefs.Time{second / 2, 5 * second / 2}, 0, []int64{1, 1, 2}},
		"the first one is not known":  {[]tracefs.Time{0, 3 * second / 2}, second, []int64{2, 2}},
		"it is not known what it ran": {[]tracefs.Time{0, 3 * second / 2}, 10 * second, []int64{4}},
	} {
		p := oneProcess{c.execs, c.known}
		r := analyseText(t, futex.Options{Mappings: p, Programs: p}, in.String()).Report(futex.View{})
		var got []int64
		for _, l := range r.Locks {
			got = append(got, l.Waits)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: locks with %v waits, want %v", name, got, c.want)
		}
	}
}

// TestProgramsOfThreads: threads of which the trace does not have the process are of the
// one that was saved with it, each from its first call on.
func TestProgramsOfThreads(t *testing.T) {
	const second = tracefs.Time(1e9)
	wait := func(tid, at string) string {
		return strings.NewReplacer("t10-10", "t"+tid+"-"+tid, "    0.", "    "+at+".").
			Replace(waitWith("sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", 1, true))
	}
	in := wait("10", "0") + wait("11", "1") + wait("12", "3")
	for name, c := range map[string]struct {
		execs []tracefs.Time
		want  []string
	}{
		"one program": {nil, []string{"7 one 3"}},
		"another one": {[]tracefs.Time{2 * second}, []string{"7 one 1", "7 one 2"}},
	} {
		r := analyseText(t, futex.Options{Programs: oneProcess{c.execs, 0}}, in).Report(futex.View{})
		var got []string
		for _, l := range r.Locks {
			got = append(got, fmt.Sprint(l.Process.TGID, " ", l.Process.Program, " ", l.Waits))
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
