// Package stackid puts kernel stacks where a trace has only their numbers. A kernel with the
// option stackmap (series "trace: stack trace deduplication for ftrace ring buffer", June 2026,
// not merged) prints
//
//	comm-12 [000] ..... 1.000001: <stack_id 42>
//
// and keeps each stack once, in the files stack_map (text) and stack_map_bin of tracefs, which
// can be saved beside the trace.
//
// A number means another stack after the map was reset, and in another boot. So a map counts
// only if it can be that of the trace: it has each stack as often as the trace, or more often
// (Map.Fits). Else the lines stay as they are.
package stackid
