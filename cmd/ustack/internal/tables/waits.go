package tables

import (
	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/tracefs"
)

// waitRow is a wait with the numbers of what it refers to, 0 for none.
type waitRow struct {
	*futex.WaitCall
	id, lock, stack, wakerStack int64
	end                         tracefs.Time // of the trace
}

// duration returns how long it waited, nil if that is unknown.
func (r *waitRow) duration() any {
	switch r.Result {
	case futex.NoReturn:
		return nil
	case futex.Open:
		return int64(max(r.end-r.From, 0))
	}
	return int64(max(r.To-r.From, 0))
}

// ended reports whether it did.
func (r *waitRow) ended() bool { return r.Result != futex.NoReturn && r.Result != futex.Open }

// waker returns a value if the waker is known, else nil.
func (r *waitRow) waker(value any) any {
	if r.Waker.TID == 0 {
		return nil
	}
	return value
}

func waitsTable() *table[waitRow] {
	return define("waits", "Calls of futex that wait, in the order in which they ended, then the open ones.", append(waiterColumns(), wakerColumns()...)...).by("lock", "tid")
}

// waiterColumns are the columns about who waited.
func waiterColumns() []column[waitRow] {
	type row = waitRow
	return []column[row]{
		{"id", Integer, "its number", func(r *row) any { return r.id }},
		{"line", Integer, "line of the trace with the call; NULL if the trace does not have it", func(r *row) any { return some(r.Line) }},
		{"end_line", Integer, "line of the trace with the return", func(r *row) any { return some(r.EndLine) }},
		{"lock", Integer, "what it waits for: locks.id; NULL if unknown, or not kept apart", func(r *row) any { return some(r.lock) }},
		{"address", Text, "the address of that", func(r *row) any {
			if !r.HasLock {
				return nil
			}
			return framejson.Hex(r.Address)
		}},
		{"tid", Integer, "the thread", func(r *row) any { return int64(r.TID) }},
		{"comm", Text, "its name", func(r *row) any { return word(r.Comm) }},
		{"pid", Integer, "its process, NULL if unknown", func(r *row) any { return positive(r.PID) }},
		{"from_ns", Integer, "when it began; of one that began before the trace, when that did", func(r *row) any { return int64(r.From) }},
		{"to_ns", Integer, "when it ended, NULL if it is open or that is unknown", func(r *row) any {
			if !r.ended() {
				return nil
			}
			return int64(r.To)
		}},
		{"ns", Integer, "how long it waited, until the end of the trace if it is open", func(r *row) any { return r.duration() }},
		{"result", Text, "woken, changed, timed out, interrupted, requeued, failed, no return or open", func(r *row) any { return r.Result.String() }},
		{"slept", Integer, "1 if the time counts: it slept", func(r *row) any { return truth(r.Slept()) }},
		{"resumed", Integer, "1 if it goes on with a wait that a signal broke off", func(r *row) any { return truth(r.Resumed) }},
		{"began_before", Integer, "1 if it began before the trace, or in a gap: ns is not whole", func(r *row) any { return truth(r.Before) }},
		{"stack", Integer, "where: stacks.id", func(r *row) any { return some(r.stack) }},
		{"no_stack", Text, "why there is no stack", func(r *row) any {
			if r.stack != 0 {
				return nil
			}
			return word(r.Missing)
		}},
	}
}

// wakerColumns are the columns about who ended it.
func wakerColumns() []column[waitRow] {
	type row = waitRow
	return []column[row]{
		{"waker_tid", Integer, "the thread that ended it, NULL if unknown", func(r *row) any { return some(r.Waker.TID) }},
		{"waker_comm", Text, "its name", func(r *row) any { return r.waker(word(r.Waker.Comm)) }},
		{"waker_pid", Integer, "its process", func(r *row) any { return r.waker(positive(r.Waker.PID)) }},
		{"waker_ns", Integer, "when it called", func(r *row) any { return r.waker(int64(r.Waker.At)) }},
		{"waker_line", Integer, "line of the trace with that call", func(r *row) any { return r.waker(some(r.Waker.Line)) }},
		{"waker_sure", Integer, "1 if no other thread can have ended it", func(r *row) any { return r.waker(truth(r.Waker.Sure)) }},
		{"waker_stack", Integer, "where: stacks.id", func(r *row) any { return r.waker(some(r.wakerStack)) }},
	}
}

// holdRow is a hold with the numbers of what it refers to.
type holdRow struct {
	*futex.Hold
	lock, stack int64
}

func holdsTable() *table[holdRow] {
	type row = holdRow
	return define("holds", "Contended holds: times in which a thread owned a lock that it, or others, had waited for. A trace shows no others.",
		column[row]{"line", Integer, "line of the trace with the call that released the lock", func(r *row) any { return some(r.Line) }},
		column[row]{"from_line", Integer, "line with the return from the wait before it; NULL if it did not wait", func(r *row) any { return some(r.FromLine) }},
		column[row]{"lock", Integer, "locks.id", func(r *row) any { return r.lock }},
		column[row]{"tid", Integer, "the thread", func(r *row) any { return int64(r.TID) }},
		column[row]{"comm", Text, "its name", func(r *row) any { return word(r.Comm) }},
		column[row]{"to_ns", Integer, "when it ended at the latest", func(r *row) any { return int64(r.To) }},
		column[row]{"ns", Integer, "how long it lasted, NULL if that is not known exactly", func(r *row) any {
			if !r.Exact {
				return nil
			}
			return int64(r.Low)
		}},
		column[row]{"low_ns", Integer, "how long it lasted at least", func(r *row) any { return int64(r.Low) }},
		column[row]{"high_ns", Integer, "how long at most, NULL if there is no bound", func(r *row) any { return positive(r.High) }},
		column[row]{"waited", Integer, "1 if the thread had waited for the lock", func(r *row) any { return truth(r.Waited) }},
		column[row]{"waiters", Integer, "threads that waited when it released the lock", func(r *row) any { return int64(r.Waiters) }},
		column[row]{"stack", Integer, "where it released the lock: stacks.id", func(r *row) any { return some(r.stack) }},
	).by("lock", "tid")
}
