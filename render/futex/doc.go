// Package futex finds out of a resolved trace who waits for whom: which
// futexes threads wait on and for how long, which threads wake them, who
// held a lock meanwhile, and what hangs at the end.
//
// An Analysis takes batches of records like a renderer and gives a Report;
// package report writes that. The way of a record: pair.go puts entries and
// returns together, wake.go finds who ended a wait, lock.go adds up,
// process.go says which threads share memory, gaps.go and span.go what loss
// could hide, kind.go, holder.go and verdict.go draw conclusions.
package futex
