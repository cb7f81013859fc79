package text

import (
	"bytes"
	"strconv"

	"ustack/tracefs/escape"
)

// CodeMark stands in a report after the name of memory that has code, and before the
// function that the frame is in, if that was known, " code=NAME+0xb9". NAME@12 is at the
// bytecode 12 of a virtual machine's function. Each function that is inlined there has a
// mark of its own, innermost first.
const CodeMark = " code="

// Code is a function in memory without a file.
type Code struct {
	// Function is "" if it is unknown.
	Function string
	// Offset is how far in the function the frame is: in bytes, or, with Runtime, the
	// index of the bytecode.
	Offset  uint64
	Runtime bool
	Inlined []string
}

// AppendCode appends a function with its marks.
func AppendCode(b []byte, c *Code) []byte {
	b = append(b, CodeMark...)
	if c.Function == "" {
		return b
	}
	b = AppendName(b, c.Function)
	if c.Runtime {
		b = strconv.AppendUint(append(b, '@'), c.Offset, 10)
	} else {
		b = strconv.AppendUint(append(b, "+0x"...), c.Offset, 16)
	}
	for _, name := range c.Inlined {
		b = AppendName(append(b, CodeMark...), name)
	}
	return b
}

// CutCode takes what AppendCode has written, which is escaped, off the end of a text. ok is
// false if there is nothing like it.
func CutCode(text []byte) (before []byte, c Code, ok bool) {
	before, rest, ok := bytes.Cut(text, []byte(CodeMark))
	if !ok || len(rest) == 0 {
		return before, c, ok
	}
	first, rest, inlines := bytes.Cut(rest, []byte(CodeMark))
	name, place := CutPlace(first)
	if c.Function = string(escape.Undo(name)); c.Function == "" {
		return before, Code{}, false
	}
	var err error
	if c.Runtime = place[0] == '@'; c.Runtime {
		c.Offset, err = strconv.ParseUint(string(place[1:]), 10, 64)
	} else {
		c.Offset, err = strconv.ParseUint(string(place[len("+0x"):]), 16, 64)
	}
	for inlines {
		first, rest, inlines = bytes.Cut(rest, []byte(CodeMark))
		c.Inlined = append(c.Inlined, string(escape.Undo(first)))
	}
	return before, c, err == nil && (c.Runtime || c.Inlined == nil)
}

// CutPlace takes the place in a function off its end, "+0xb9" or "@12". Without one, the
// name is empty.
func CutPlace(function []byte) (name, place []byte) {
	at := max(bytes.LastIndex(function, []byte("+0x")), bytes.LastIndexByte(function, '@'))
	if at <= 0 || at+1 == len(function) {
		return nil, function
	}
	return function[:at], function[at:]
}
