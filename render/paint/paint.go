// Package paint colors the text of reports for a terminal.
//
// It goes by what all reports have in common: a line without indent says something by
// itself or is a heading, lines below it begin with a label. Nothing but colors is added:
// without them the text is what it was.
package paint

import (
	"bytes"
	"slices"
)

// Sequences of a terminal (ECMA-48, "Select Graphic Rendition"). The colors are those of
// its user's palette.
const (
	bold   = "\033[1m"
	label  = "\033[36m"
	notice = "\033[33m"
	reset  = "\033[0m"
)

// Report returns the text of a report with colors. The text must have no control
// characters but tabs and line feeds (render.Sanitizer).
func Report(text []byte) []byte {
	var out bytes.Buffer
	goesOn := false // the line before is the beginning of a bold sentence
	for line := range bytes.Lines(text) {
		body := bytes.TrimSuffix(line, []byte("\n"))
		color, n := shape(body)
		switch {
		case color != "":
			goesOn = color == bold && body[0] != ' '
		case len(body) == 0:
			goesOn = false
		case goesOn:
			color, n = bold, len(body)
		}
		paint(&out, body[:n], color)
		out.Write(line[n:])
	}
	return out.Bytes()
}

// shape returns the color of a line, "" for none of its own, and how much of it has it.
func shape(line []byte) (color string, n int) {
	word := bytes.TrimLeft(line, " ")
	indent := len(line) - len(word)
	switch n := titleLen(word); {
	case len(word) == 0:
	case indent == 0 && isNotice(word):
		return notice, max(n, wordsLen(word))
	case indent == 0 && n > 0 && !bytes.HasPrefix(word, []byte("Most")):
		return label, n
	case indent == 0, word[0] == '#':
		return bold, len(line)
	default:
		if n := labelLen(word); n > 0 {
			return label, indent + n
		}
	}
	return "", 0
}

// notices begin lines that say what to keep in mind.
func notices() []string { return []string{"Note:", "Lost", "LOST", "Warning:"} }

func isNotice(line []byte) bool {
	return slices.ContainsFunc(notices(), func(word string) bool { return bytes.HasPrefix(line, []byte(word)) })
}

// A label has so many words and letters at most.
const mostWords, mostLetters = 4, 24

// titleLen returns the length of the title with a colon that a line begins with, 0 if it
// has none.
func titleLen(line []byte) int {
	n := wordsLen(line)
	if n > 0 && n < len(line) && line[n] == ':' && isLetter(line[0]) && line[0] < 'a' {
		return n + 1
	}
	return 0
}

// labelLen returns the length of the label of a line: some words in small letters before
// a colon and a space, or before two spaces. It is 0 if there is none.
func labelLen(line []byte) int {
	n := wordsLen(line)
	switch {
	case n == 0 || line[0] < 'a':
		return 0
	case bytes.HasPrefix(line[n:], []byte(": ")):
		return n + 1
	case bytes.HasPrefix(line[n:], []byte("  ")):
		return n
	}
	return 0
}

// wordsLen returns the length of the words that a line begins with, with one space between
// two of them, 0 if they are too many or too long for a label.
func wordsLen(line []byte) int {
	n, words := 0, 1
	for n < len(line) && (isLetter(line[n]) || line[n] == ' ' && n+1 < len(line) && isLetter(line[n+1])) {
		if line[n] == ' ' {
			words++
		}
		n++
	}
	if words > mostWords || n > mostLetters {
		return 0
	}
	return n
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// paint writes a part of a line in a color, "" for none. Spaces around it have none.
func paint(out *bytes.Buffer, part []byte, color string) {
	word := bytes.Trim(part, " ")
	if color == "" || len(word) == 0 {
		out.Write(part)
		return
	}
	at := bytes.Index(part, word)
	out.Write(part[:at])
	out.WriteString(color)
	out.Write(word)
	out.WriteString(reset)
	out.Write(part[at+len(word):])
}
