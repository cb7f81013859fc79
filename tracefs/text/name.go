package text

import (
	"strings"

	"ustack/tracefs/escape"
)

// marks separate the parts of a frame's line. Each begins with a blank.
var marks = [...]string{FileMark, UnresolvedMark, InferredMark, WordsMark, HexMark, CodeMark}

// AppendName appends an untrusted string, a path or the name of a function
// or memory, so that it stays in its place in a frame's line or a mapping event:
// escaped, and where it has one of the marks that stand between the parts of the
// line, with the mark's blank as \040. escape.Undo gives the string back.
func AppendName(b []byte, name string) []byte {
	for {
		n := mark(name)
		if n < 0 {
			return escape.Append(b, []byte(name))
		}
		b = escape.AppendByte(escape.Append(b, []byte(name[:n])), ' ')
		name = name[n+1:]
	}
}

// mark returns where the first mark in a name begins, -1 if there is none.
func mark(name string) int {
	for from := 0; ; from++ {
		n := strings.IndexByte(name[from:], ' ')
		if n < 0 {
			return -1
		}
		from += n
		for _, m := range marks {
			if strings.HasPrefix(name[from:], m) {
				return from
			}
		}
	}
}
