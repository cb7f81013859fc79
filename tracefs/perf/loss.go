package perf

// loss counts the records that a ring had no room for. The kernel reports them in a
// LOST record, which it writes with the next record that has room; until then only
// its counter has them.
type loss struct {
	recorded uint64 // in LOST records
	reported uint64 // to our caller
}

// record notes a LOST record, and returns how many are new to our caller.
func (l *loss) record(n uint64) uint64 {
	l.recorded += n
	return l.report(l.recorded)
}

// report notes a count of all, and returns how many are new to our caller.
func (l *loss) report(all uint64) uint64 {
	if all <= l.reported {
		return 0
	}
	n := all - l.reported
	l.reported = all
	return n
}
