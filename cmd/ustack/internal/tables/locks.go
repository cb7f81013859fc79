package tables

import (
	"ustack/filemap"
	"ustack/render/framejson"
	"ustack/render/futex"
)

// lockRow is a lock with its number.
type lockRow struct {
	id int64
	*futex.Lock
	bounded bool
}

func (r *lockRow) result(x futex.Result) any { return r.Results[x] }

// pid returns the process, nil if it is unknown, or there are several.
func (r *lockRow) pid() any {
	if r.Process == nil {
		return nil
	}
	return positive(r.Process.TGID)
}

func (r *lockRow) of(value func(*futex.Process) string) any {
	if r.Process == nil {
		return nil
	}
	return word(value(r.Process))
}

// inObject returns something of the file with the lock's variable, nil if there is none.
func (r *lockRow) inObject(value func(*filemap.File) string) any {
	if r.Variable == nil || r.Variable.File == nil {
		return nil
	}
	return word(value(r.Variable.File))
}

func locksTable() *table[lockRow] {
	type row = lockRow
	columns := append(lockNames(), lockTimes()...)
	columns = append(columns,
		column[row]{"holds", Integer, "contended holds: the rows of holds; NULL if none is certain", func(r *row) any {
			if r.Holds == nil {
				return nil
			}
			return r.Holds.Count
		}},
		column[row]{"lost_holds", Integer, "holds that are unknown, as records were lost", func(r *row) any {
			if r.Holds == nil {
				return nil
			}
			return r.Holds.Lost
		}},
	)
	return define("locks", "Futexes that threads waited for, a row for each, those with the most waiting first.", columns...)
}

// lockNames are the columns that say which lock it is.
func lockNames() []column[lockRow] {
	type row = lockRow
	return []column[row]{
		{"id", Integer, "its number, for waits.lock and holds.lock", func(r *row) any { return r.id }},
		{"is_lock", Integer, "1 if threads wait for it as for a lock, 0 if it is a condition variable, a join, ...", func(r *row) any { return truth(r.Contends()) }},
		{"address", Text, "its address, in hex", func(r *row) any { return framejson.Hex(r.Address) }},
		{"name", Text, "the static variable that it is, NULL if unknown", func(r *row) any {
			if r.Variable == nil {
				return nil
			}
			return word(r.Variable.String())
		}},
		{"object", Text, "the program or library that this is in", func(r *row) any { return r.inObject(func(f *filemap.File) string { return f.Path }) }},
		{"object_build_id", Text, "the build ID of that, in hex", func(r *row) any { return r.inObject(func(f *filemap.File) string { return f.BuildID.Hex() }) }},
		{"kind", Text, "what it is used as: mutex, rwlock, condvar, ...", func(r *row) any { return r.Kind.String() }},
		{"role", Text, "what the program uses it as, for instance GIL; NULL if unknown", func(r *row) any { return word(r.Role) }},
		{"pid", Integer, "its process, NULL if unknown", func(r *row) any { return r.pid() }},
		{"comm", Text, "the name of a thread of that", func(r *row) any { return r.of(func(p *futex.Process) string { return p.Comm }) }},
		{"program", Text, "the program that it runs", func(r *row) any { return r.of(func(p *futex.Process) string { return p.Program }) }},
		{"known_by", Text, "how the process is known", func(r *row) any { return r.of(func(p *futex.Process) string { return p.How.String() }) }},
		{"shared", Integer, "1 if it may be shared between processes", func(r *row) any { return truth(r.Shared && !r.Local) }},
		{"file", Text, "the file that it is in, if it is in a shared mapping", func(r *row) any { return word(r.File) }},
		{"offset", Text, "its offset there, in hex", func(r *row) any {
			if r.File == "" {
				return nil
			}
			return framejson.Hex(r.Offset)
		}},
	}
}

// lockTimes are the columns that say how threads waited.
func lockTimes() []column[lockRow] {
	type row = lockRow
	return []column[row]{
		{"waits", Integer, "waits, of all results", func(r *row) any { return r.Waits }},
		{"woken", Integer, "of these, ended by another thread", func(r *row) any { return r.result(futex.Woken) }},
		{"changed", Integer, "did not sleep: the value had changed", func(r *row) any { return r.result(futex.Changed) }},
		{"timed_out", Integer, "reached their timeout", func(r *row) any { return r.result(futex.TimedOut) }},
		{"interrupted", Integer, "ended by a signal", func(r *row) any { return r.result(futex.Interrupted) }},
		{"requeued", Integer, "moved to another futex", func(r *row) any { return r.result(futex.Requeued) }},
		{"failed", Integer, "ended by another error", func(r *row) any { return r.result(futex.Failed) }},
		{"no_return", Integer, "without a return in the trace", func(r *row) any { return r.result(futex.NoReturn) }},
		{"open", Integer, "not ended at the end of the trace", func(r *row) any { return r.result(futex.Open) }},
		{"ns", Integer, "time of the waits that slept and ended", func(r *row) any { return int64(r.Time) }},
		{"open_ns", Integer, "time of the open ones until the end of the trace", func(r *row) any { return int64(r.OpenTime) }},
		{"low_ns", Integer, "both together at least; NULL if loss leaves no bound", func(r *row) any { return r.bound(int64(r.Low)) }},
		{"high_ns", Integer, "both together at most", func(r *row) any { return r.bound(int64(r.High)) }},
		{"slept", Integer, "waits that slept and ended, of which are:", func(r *row) any { return r.Slept }},
		{"mean_ns", Integer, "the mean", func(r *row) any { return int64(r.Mean) }},
		{"p50_ns", Integer, "the median, of a histogram", func(r *row) any { return int64(r.P50) }},
		{"p99_ns", Integer, "the 99th percentile, of a histogram", func(r *row) any { return int64(r.P99) }},
		{"max_ns", Integer, "the longest", func(r *row) any { return int64(r.Max) }},
	}
}

func (r *lockRow) bound(n int64) any {
	if !r.bounded {
		return nil
	}
	return n
}
