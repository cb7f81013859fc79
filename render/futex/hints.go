package futex

import "slices"

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
