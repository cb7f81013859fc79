// Package escape writes untrusted strings so that they stay in their
// place, and reads them back exactly.
//
// A control character is written as a backslash and three octal digits, \012 for a
// line feed, as in /proc/PID/mountinfo (mangle in fs/seq_file.c). Those of UTF-8 above
// 0x7f (U+0080 to U+009f: U+009b is to a terminal what ESC [ is), and those that change
// the direction of text, are written byte by byte: \302\233. So is a backslash before three octal digits that
// spell a byte; every other backslash stays, so that most names look as they
// are. [Undo] of what [Append] has written is the string that was given.
//
// This is the one place that knows how ustack escapes: records, live text, saved
// traces and mappings, and tables all use it.
package escape
