// Package impact finds which locks a program's run time depends on, and what it would
// be if a lock were used otherwise.
//
// A Log keeps what threads do, compactly and with a bound. Of it, Path is the critical
// path between two times, and Predict replays the activity with a change. What the log
// does not know is a part of its own, never spread over the others.
package impact
