// Package resolve turns a stream of records into records whose frames have
// files. It is where the rules of time live: which announcement a frame gets
// (names.go), how long a record may be buffered for one (hold.go), which
// stack belongs to which event (stitch.go), and what is counted (totals.go).
package resolve
