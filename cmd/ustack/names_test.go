package main

import (
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/signals"
)

// Names that tests use.
const (
	clock           = live.Clock
	savedTraceFile  = "trace.txt"
	savedSpacesFile = "spaces.txt"
	sourceText      = live.SourceText
	sourceBinary    = live.SourceBinary
	signalBase      = signals.Base
)
