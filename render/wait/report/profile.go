package report

import (
	"ustack/render/profile"
	"ustack/render/wait"
)

// Profile makes a profile of the waits that have ended, by the stack of the waiter. The
// label is what the thread waits in. The report must have been made with View.Top 0, of a
// row for each stack.
func Profile(r *wait.Report) *profile.Profile {
	unit := profile.Waits
	if r.Ticks {
		unit = profile.WaitTicks
	}
	p := profile.New(unit)
	for _, row := range r.Rows {
		for i := range row.Sites {
			s := &row.Sites[i]
			p.Add(p.Kept(s.Stack, s.None), profile.Labels{Wait: call(s)}, profile.Value{Count: s.Waits, Time: s.Time})
		}
	}
	return p
}
