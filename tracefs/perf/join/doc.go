// Package join finds the record of a trace that belongs to a sample of perf: both
// were made by one thread at one hit of one tracepoint, each with its own time stamp,
// a little apart, and either may be lost. Nothing is guessed; a pair is proven or it
// is refused.
//
// A thread is in one system call at a time. So its records in the trace are enter,
// exit, enter, exit, and a sample of an entry at the time t is
//
//   - of the call that was entered before t, if nothing of the trace is missing between
//     that entry and t, and no exit is there: at t the thread was in that call;
//   - of the call that is entered next, if nothing is missing between t and that entry,
//     and no exit is there: at t the thread was in no call of before.
//
// One of the two holds for each sample whose records are there, whichever of perf and
// ftrace comes first at a tracepoint. Lost samples cannot make a wrong pair, as a
// sample is never paired by its number. Lost records of the trace can, and so any
// loss, of any CPU, in the time between the two refuses the pair. Beyond that the
// CPU, the tracepoint and the address of the instruction must be the same.
//
// Where exits are not traced, it has to be known which of the two comes first (it is
// always the same one while both are switched on: the kernel calls them in the order
// in which they were), see Options.Order.
//
// Losses have to be reported: a ring buffer that refuses new records when it is full, in
// place of writing over old ones, counts what it drops, but does not mark the place.
//
// The trace and the samples must have the same clock, and it must not go back.
// Sampled calls must be traced, without a filter of the trace that leaves out calls
// that the sampler's filter passes, or some samples have no record but another
// call's.
package join
