// Package printfmt makes the text of an event from its binary record as the
// kernel does, by the "print fmt" of the event's format file.
//
// A print fmt is C: a format string for the kernel's vsnprintf and arguments
// that read the record (REC->pid), compute, and call a handful of macros
// (include/trace/stages/stage3_trace_output.h). [Compile] turns it into a
// [Program] once; a print fmt that it cannot express is an error, and the
// caller prints the fields by their names instead, as the kernel's option
// fields does ([AppendFields]).
//
// Where to look: token.go and parse.go read the C, value.go knows its types,
// calls.go the macros, compile.go the format string, number.go and pointer.go
// the conversions (lib/vsprintf.c).
package printfmt
