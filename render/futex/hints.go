package futex

import (
	"fmt"
	"slices"

	"ustack/render/phrase"
	"ustack/tracefs"
)

// hint says what the futexes of a runtime do not show, and what shows it.
type hint struct {
	// files begin the names of the runtime's files, without directories, through which
	// threads wait; none are for the Go runtime, which is in each program.
	files []string
	// at is the kind of what they wait for, Unknown for any.
	at Kind
	// unless are the roles that make it needless.
	unless []string
	text   string
}

// hints are of runtimes whose own locks are no futexes, or are futexes of each thread.
func hints() []hint {
	return []hint{
		{nil, Unknown, nil, "goroutines that wait for a sync.Mutex or a channel make no futex call: Go's mutex and block profiles have them (runtime.SetMutexProfileFraction, go tool pprof)"},
		{[]string{"libjvm.so"}, Unknown, []string{"Java monitor", "Java lock"}, "a Java thread waits for any monitor or java.util.concurrent lock at futexes of its own: jstack -l PID names the locks"},
		{[]string{"postgres"}, Unknown, nil, "processes of PostgreSQL wait for locks of rows and tables in epoll_wait, not at a futex: pg_stat_activity and pg_locks have them"},
		{[]string{"mariadbd", "mysqld"}, Unknown, nil, "InnoDB's latches are its own code and have no symbols: performance_schema names what is waited for (events_waits_summary_global_by_event_name, wait/synch/%)"},
		{[]string{"python3", "libpython3"}, Condvar, []string{"GIL"}, "Python's GIL is a condition variable: take_gil has no name here, so it is a lock (condvar) if threads took turns at it; Python's debug symbols name it"},
		{[]string{"libruby-", "ruby"}, Condvar, nil, "a Ruby thread waits for the GVL, a Mutex or a Queue at a condition variable of its own: threads that compute take turns, and Thread#backtrace shows their code"},
	}
}

// hints returns the hints for what threads wait for in a report.
func (rp *reporter) hints(locks []*Lock) (list []string) {
	for _, h := range hints() {
		needless := slices.ContainsFunc(locks, func(l *Lock) bool { return slices.Contains(h.unless, l.Role) })
		if !needless && slices.ContainsFunc(locks, func(l *Lock) bool { return rp.fits(&h, l) }) {
			list = append(list, h.text)
		}
	}
	return list
}

// fits reports whether a hint is about a lock.
func (rp *reporter) fits(h *hint, l *Lock) bool {
	switch {
	case h.files == nil:
		return l.Kind == GoPark || l.Kind == GoLock
	case h.at != Unknown && l.Kind != h.at:
		return false
	}
	return slices.ContainsFunc(l.lock.flows.list, func(p part[flow]) bool {
		s := rp.stacks.Get(p.key.wait)
		return s != nil && slices.ContainsFunc(s.Frames, func(f Frame) bool {
			return f.File != nil && isOf(f.File, h.files)
		})
	})
}

// A report is of locks that cost nothing if all waits for them are together less than a
// part of a trace that is not short.
const (
	costsNothing = 100
	notShort     = tracefs.Time(1e9)
)

// Where the time is spent that locks do not cost.
const (
	hintRuns  = "locks cost next to nothing here, and its threads ran %s: perf top -p PID shows where"
	hintWaits = "locks cost next to nothing here: ustack wait -p PID shows what else threads wait for%s"
)

// elsewhere returns a hint at where the time goes if it is not waited for locks, "" if it is,
// or nothing is known: threads of the processes in the report ran for half of the trace, or
// else wait for something else.
func (rp *reporter) elsewhere(r *Report) string {
	length := r.End - r.Start
	if r.Ticks || length < notShort || r.Loss.Any() || rp.calls.entries == 0 || (r.Contended.Time+r.Contended.OpenTime)*costsNothing > length {
		return ""
	}
	if !rp.activity.whole {
		return fmt.Sprintf(hintWaits, ", perf top -p PID where they run")
	}
	if ran := rp.ran(r.End); 2*ran > length {
		return fmt.Sprintf(hintRuns, phrase.Percent(ran, length)+" of the time")
	}
	return fmt.Sprintf(hintWaits, "")
}

// ran returns for how long the threads of processes that made calls of futex ran in all.
func (rp *reporter) ran(end tracefs.Time) (sum tracefs.Time) {
	processes := make(map[int32]bool)
	for th := range rp.tasks.threads.all() {
		if p := th.proc.find(); p.tgid != tracefs.NoTID {
			processes[p.tgid] = true
		}
	}
	for _, tl := range rp.activity.lines {
		ours := rp.tasks.threads.get(tl.tid) != nil
		if m := rp.tasks.mappings; m != nil && !ours {
			tgid, ok := m.Process(tl.tid)
			ours = ok && processes[tgid]
		}
		if !ours || tl.breaks > 0 && !tl.trusted() {
			continue
		}
		sum += tl.way.all
		if tl.way.running {
			sum += max(end-tl.way.on, 0)
		}
	}
	return sum
}
