// Package text decodes the text of an ftrace, as the kernel's trace and
// trace_pipe files or trace-cmd report print it, into tracefs records.
//
// Where to look: the spellings the kernel uses for stacks, cookies and mapping
// events are the tables in dialect.go; the columns before a record's body are
// in header.go; the lines of a stack in frame.go; the grammar of mapping
// events in mapping_event.go; scanner.go and walk.go find where records begin and end;
// write.go writes. No other package has these words: a test of partstest looks.
package text
