// Package perftrace makes a trace of what the rings of perf have while they are written:
// tracepoints with their user stacks, in the words that ftrace has for them, as one trace in
// order of time.
//
// Package tracefs/perf opens the events and reads the rings; package tracefs/binary prints
// the records. Stacks are those that the kernel unwinds by frame pointers: at the event, or,
// from Linux 6.19 on, on the return to user space (PERF_RECORD_CALLCHAIN_DEFERRED), with the
// cookie of the event that asked.
//
// Invariants:
//   - Records leave in order of time: up to a moment ago, after which no CPU writes one
//     that is older.
//   - A loss is a record of the trace, before the first record of its CPU that came after
//     it, or at the end.
//   - A thread that is sampled by two events at once has each record once.
package perftrace
