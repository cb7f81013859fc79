//go:build device

package sideband

import (
	"ustack/filemap/procmap"
	"ustack/tracefs/perf"
)

// loadGaps are left out on devices, for their size: a file can be believed to be between the
// segments of its program, where no code runs.
type loadGaps struct{}

func (loadGaps) begin(int) {}

func (loadGaps) end(int) {}

func (loadGaps) maps(*perf.Record, *procmap.Mapping) {}

func (loadGaps) loaded(*History, *procmap.Reader, *perf.Record) {}
