// Package escape writes untrusted strings so that they stay in their
// place, and reads them back exactly.
//
// A control character (0x00 to 0x1f, and 0x7f) is written as a backslash and
// three octal digits, \012 for a line feed, as in /proc/PID/mountinfo
// (mangle in fs/seq_file.c). So is a backslash before three octal digits that
// spell a byte; every other backslash stays, so that most names look as they
// are. [Undo] of what [Append] has written is the string that was given.
//
// This is the one place that knows how ustack escapes: records, live text, saved
// traces and mappings, and tables all use it.
package escape
