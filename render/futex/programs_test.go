package futex_test

import (
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
