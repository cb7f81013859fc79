package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// sideNames are what reports are called.
var sideNames = [2]string{"A", "B"}

// why says what makes a difference uncertain.
func (c *comparer) why(k key) string {
	for i := range c.reports {
		switch {
		case !c.bounded(i):
			return "records of " + sideNames[i] + " are lost, without bounds"
		case c.aligner.alien[i][k.class].time > 0:
			return "waits of " + sideNames[i] + " cannot be aligned"
		case c.reports[i].doc.unlisted(k.class) > 0:
			return sideNames[i] + " does not list all locks"
		case c.reports[i].doc.Loss.Gaps > 0:
			return "records of " + sideNames[i] + " are lost: the ranges overlap"
		}
	}
	return "the ranges overlap"
}

// limits says what the reports lack.
func (c *comparer) limits() (out []string) {
	for i, r := range c.reports {
		d, name := &r.doc, sideNames[i]
		if d.Calls == 0 {
			out = append(out, name+" has no futex calls: the trace needs sys_enter_futex and sys_exit_futex")
		}
		if n := d.LockCount - int64(len(d.Locks)); n > 0 {
			out = append(out, fmt.Sprintf("%s lists %d of %d locks: make the report with --top 0", name, len(d.Locks), d.LockCount))
		} else if n := d.SignalCount - int64(len(d.Condvars)); n > 0 {
			out = append(out, fmt.Sprintf("%s lists %d of %d other futexes: make the report with --top 0", name, len(d.Condvars), d.SignalCount))
		}
		if a := &c.aligner.alien[i]; a[locks].used() || a[signals].used() {
			out = append(out, name+": waits of code without names, in a build that only it has, are not aligned")
		}
		if d.Loss.Gaps > 0 || d.Loss.Refused > 0 {
			out = append(out, name+" lacks records: what their waits can have changed is not certain")
		}
	}
	return out
}
