package main

import (
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/live/sources"
	"ustack/cmd/ustack/internal/signals"
)

// Names that tests use.
const (
	clock           = live.Clock
	savedTraceFile  = "trace.txt"
	savedSpacesFile = "spaces.txt"
	sourceText      = sources.Text
	sourceBinary    = sources.Binary
	sourcePerf      = sources.Perf
	signalBase      = signals.Base
)
