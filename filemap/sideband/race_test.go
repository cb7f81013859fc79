//go:build race

package sideband

// restlessPause is how long a restless process waits between two changes, in
// nanoseconds: a reader that the race detector slows down keeps up.
const restlessPause = 300_000
