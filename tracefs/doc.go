// Package tracefs holds what the kernel's tracing interface writes, as records. A
// source (text, ring buffer pages, trace.dat files) fills a [Batch] with [Record]
// values; the resolver of package filemap and the renderers read them there.
//
// The parsers live below: tracefs/text decodes trace_pipe, trace and
// trace-cmd report text; tracefs/binary decodes records of the ring buffer,
// by what tracefs/format reads of the kernel's format files, out of the pages
// that tracefs/ring walks, with the words that tracefs/printfmt finds;
// tracefs/tracedat reads the files of trace-cmd. tracefs/input opens saved
// traces of all kinds and merges several of them into one, tracefs/instance
// makes tracing instances on a live kernel.
package tracefs
