// Package space keeps the address spaces of processes over time: which file was
// mapped where in which process, when. One goroutine looks addresses up, or
// holds a Snapshot, while others bring the spaces up to date.
package space
