//go:build !race

package sideband

// restlessPause is how long a restless process waits between two changes, in
// nanoseconds.
const restlessPause = 100_000
