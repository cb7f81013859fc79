package unwind

import "ustack/tracefs"

// traceHows and traceStops have results in the terms of a trace. Their indexes cannot be too large.
var (
	traceHows = [1 << 8]tracefs.How{
		Given: tracefs.ByRegisters, CFI: tracefs.ByCFI, SFrame: tracefs.BySFrame, GoTable: tracefs.ByGoTable,
		FramePointer: tracefs.ByFramePointer, Signal: tracefs.BySignal, VirtualMachine: tracefs.ByVirtualMachine,
		Code: tracefs.ByCode,
	}
	traceStops = [1 << 8]tracefs.Stop{
		Root: tracefs.AtRoot, Short: tracefs.AtCopy, NoInformation: tracefs.AtFile, NoMap: tracefs.AtNoMap,
		Contradiction: tracefs.AtContradiction, Limit: tracefs.AtLimit, UnknownRegister: tracefs.AtRegister,
		Elsewhere: tracefs.AtOtherStack, Switch: tracefs.AtSwitch,
	}
)

// HowOf returns how a frame was found, in the terms of a trace.
func HowOf(h How) tracefs.How { return traceHows[h] }

// StopOf returns why a stack ends, in the terms of a trace.
func StopOf(w Why) tracefs.Stop { return traceStops[w] }
