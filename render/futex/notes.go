package futex

import (
	"cmp"
	"fmt"
	"slices"
)

// notes says what the trace lacks for more about some futexes.
func (rp *reporter) notes(r *Report, v *View, locks []*Lock, filtered bool) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case rp.calls.entries == 0 && rp.calls.exits == 0:
		note("the trace has no futex calls (the events sys_enter_futex and sys_exit_futex)")
	case rp.calls.exits == 0:
		note("the trace has no returns from futex calls: all of them hang, or the event sys_exit_futex was not enabled")
	case rp.calls.entries == 0:
		note("the trace has returns from futex calls only: enable the event sys_enter_futex")
	}
	if rp.claimed > 0 {
		note("%d of %d frames rest on claims, which the kernel made because of another stack: --maps checks them, --strict leaves them unresolved", rp.claimed, rp.frames)
	}
	rp.noteHints(r, v, locks, filtered)
	unknown := slices.ContainsFunc(locks, func(l *Lock) bool { return l.Process != nil && l.Process.TGID < 0 })
	switch {
	case unknown && rp.opt.Mappings == nil && rp.opt.Programs == nil:
		note("processes are distinguished by which thread wakes which: the option record-tgid, or --maps, would make it sure")
	case unknown:
		note("processes without known mappings are distinguished by which thread wakes which: the option record-tgid would make it sure")
	}
	rp.noteActivity(locks, note)
	if rp.losses.Ticks {
		note("times are in ticks of the trace's clock, not in seconds")
	}
	shared := slices.ContainsFunc(locks, func(l *Lock) bool { return l.Shared && !l.Local && l.File == "" && l.Kind != Join })
	switch {
	case shared && rp.opt.Mappings == nil:
		note("futexes without FUTEX_PRIVATE_FLAG may be shared between processes: --maps would show it")
	case shared:
		note("futexes without FUTEX_PRIVATE_FLAG may be shared between processes: the known mappings do not show it")
	}
	if rp.calls.stopped && !rp.calls.restarts {
		note("waits that a signal interrupted may have gone on unseen: enable the event sys_enter_restart_syscall, and sys_exit too")
	}
	if rp.calls.moves > 0 {
		note("%d calls of futex_requeue moved waiters from and to futexes that a trace does not show", rp.calls.moves)
	}
	switch {
	case rp.locks.evicted && filtered:
		note("more than %d futexes: those with the least time, of all processes, are left out", rp.opt.Locks)
	case rp.locks.evicted:
		note("more than %d futexes: those with the least time are summed up as others", rp.opt.Locks)
	}
}

// noteHints says where else to look. What futexes do not show of a runtime's locks may be what
// they cost.
func (rp *reporter) noteHints(r *Report, v *View, locks []*Lock, filtered bool) {
	hint := func(text string) {
		if text != "" {
			r.Hints = append(r.Hints, text)
		}
	}
	if v.By == ByAuto && r.By == BySite {
		hint("rows are places in the code, as no lock of theirs has most of the waiting: --by=object has each lock")
	}
	hints := rp.hints(locks)
	r.Hints = append(r.Hints, hints...)
	hint(mixed(locks))
	if len(hints) == 0 && !filtered {
		hint(cmp.Or(rp.own(r, locks), rp.elsewhere(r)))
	}
}
