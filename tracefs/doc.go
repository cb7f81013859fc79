// Package tracefs holds what the kernel's tracing interface writes, as
// records. A source (text today, ring buffer pages and trace.dat files later)
// fills a [Batch] with [Record] values; whoever comes after it, the resolver
// of package filemap and the renderers, reads them there.
//
// The parsers live below: tracefs/text decodes trace_pipe, trace and
// trace-cmd report text, tracefs/input opens saved traces and merges several
// of them into one, tracefs/instance makes tracing instances on a live kernel.
package tracefs
