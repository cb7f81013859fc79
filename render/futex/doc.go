// Package futex finds out of a resolved trace who waits for whom: which
// futexes threads wait on and for how long, which threads wake them, who
// held a lock meanwhile, and what hangs at the end.
//
// An Analysis takes batches of records like a renderer and gives a Report;
// package report writes that. It has parts, each a type with its invariants in its doc
// comment, and each knows only the ones before it: stacks, losses (time, and what loss
// can hide), tasks (threads and processes), locks, sites (who waits where, and who wakes
// it), holders (who owns a lock), callLog, held, calls (which puts entries and returns
// together, and leads the others), and reporter, which draws conclusions and changes
// nothing.
//
// They keep threads, processes, locks, waits, sites and wakes, which refer to each
// other. A part makes and forgets the things it is named for; the sums of a lock are
// counted by the part that sees them. A part that needs something done above it calls
// a function that it was given, see connect.
package futex
