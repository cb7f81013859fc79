package text

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrLayout is wrapped by errors about a layout that cannot be used.
var ErrLayout = errors.New("this layout of trace text cannot be used")

// ErrNoRecords is the error about an input without a single trace record.
var ErrNoRecords = errors.New("no trace record found: this is not the text of an ftrace")

func layoutError(option, why string) error {
	return fmt.Errorf("%w: %s; %s and trace again", ErrLayout, why, option)
}

// refusal counts the lines, comments not included, that stood before the first
// header and were looked at for a layout that has lost what ustack needs
// (FORMATS 1.2).
type refusal struct {
	lines int
}

// tryLines is how many lines without a header are looked at.
const tryLines = 200

// refuse looks at a line without a header for signs of such a layout.
func refuse(line []byte) error {
	switch {
	case hasPrefix(line, "\x17\x08\x44tracing"):
		return fmt.Errorf("%w: it is a trace.dat inside a compressed file; decompress it first", ErrLayout)
	case isRaw(line):
		return layoutError("switch the option raw off (echo 0 > options/raw)",
			"it was written with the option raw, which has no stacks")
	case isBinary(line):
		return layoutError("switch the option bin off (echo 0 > options/bin)",
			"it is not text: written with the option bin?")
	case isHex(line):
		return layoutError("switch the option hex off (echo 0 > options/hex)",
			"it was written with the option hex")
	case isBareBody(line):
		return layoutError("switch the option context-info on (echo 1 > options/context-info)",
			"it was written without context-info, so the tasks are unknown")
	}
	return nil
}

// fieldsError is for a record of type number only: option fields replaces
// every stack by "UNKNOWN TYPE 13".
func fieldsError() error {
	return layoutError("switch the option fields off (echo 0 > options/fields)",
		"it was written with the option fields, which has no stacks")
}

// isRaw knows "1282 0 1173590424272 type: 13": pid, CPU, time.
func isRaw(line []byte) bool {
	for range 3 {
		_, n := parseDec(line)
		if n == 0 || n >= len(line) || line[n] != ' ' {
			return false
		}
		line = line[n+1:]
	}
	return true
}

func isBinary(line []byte) bool {
	n := 0
	for _, c := range line {
		if c < ' ' && c != '\t' && c != '\x1b' {
			n++
		}
	}
	return n > 4 && n > len(line)/8
}

// isHex knows lines of nothing but pairs of hexadecimal digits.
func isHex(line []byte) bool {
	words := bytes.Fields(line)
	for _, w := range words {
		if _, n := parseHex(w); n != len(w) && len(w) <= 16 || len(w)%2 != 0 || len(w) > 16 {
			return false
		}
	}
	return len(words) >= 4
}

// isBareBody knows bodies at the beginning of a line.
func isBareBody(line []byte) bool {
	// Not cookie lines and frames: a piece of a trace may begin in a stack.
	if hasPrefix(line, "<user stack") || hasPrefix(line, "<stack trace>") {
		return true
	}
	if !hasPrefix(line, "sys_") {
		return false
	}
	return bytes.HasSuffix(line, []byte(")")) || bytes.Contains(line, []byte(" -> 0x"))
}
