// Package tracedat reads trace.dat files of trace-cmd, versions 6 and 7
// (trace-cmd.dat.v6(5), trace-cmd.dat.v7(5)): their description of the traced
// kernel, and the ring buffers' pages of each instance and CPU. Package binary
// decodes the records in them.
//
// Where to look: file.go is the head that both versions share and the File,
// v6.go and v7.go are the two layouts, options.go the options that both have,
// procmaps.go the mappings of processes, events.go the metadata, pages.go and
// compress.go the trace data.
package tracedat
