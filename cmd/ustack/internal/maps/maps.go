// Package maps lists, looks up and saves the mappings of processes, or those that a
// trace.dat has.
package maps

import (
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/filemap/procmap"
)

// Job is what to do with the mappings of which processes.
type Job struct {
	All, Files, JSON bool
	// Save is the file for a dump, "-" for standard output, "" for none.
	Save string
	// Poll is how often the processes are read for the dump, 0 for once.
	Poll time.Duration
	// Addr is an address in hexadecimal, "-" for those on standard input, "" for none.
	Addr string
	PIDs []int // empty for all
	// File is a trace.dat, "" for live processes.
	File   string
	Source procmap.Source

	ids *procmap.IDs
}

// Run does it. Of processes that were named, it reports each that cannot be read on
// std.Err, and fails at the end.
func (j *Job) Run(std command.Streams) error {
	switch {
	case j.File != "":
		return j.saved(std.In, std.Out)
	case j.Addr != "":
		return j.addresses(std.In, std.Out)
	case j.Save != "":
		return j.dump(std.Out, std.Err)
	default:
		return j.list(std.Out, std.Err)
	}
}
