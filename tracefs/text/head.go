package text

import (
	"bytes"
	"fmt"
)

// Head is the first line of text that ustack has written. It means that strings
// are as package escape writes them, in this version. In a file without it, the
// kernel or another program has written the strings, and a backslash in them is
// a backslash.
//
// No untrusted string can be at the beginning of the kernel's text: a record
// begins with a name of 15 bytes at most, in 16 columns.
const Head = headKey + "1\n"

// PlaceMark begins a line of a report, which is no record, with where a futex is
// (render/futex.Place): it comes before the first call there that a thread makes.
// Escape lets no other text begin with it.
const PlaceMark = "# ustack: place "

// IsPlace reports whether a line of text that ustack has written has a place.
func IsPlace(line []byte) bool { return hasPrefix(line, PlaceMark) }

const (
	headKey = "# ustack: escaped="
	// savedKey follows in the head of a trace that was saved with the address spaces
	// of its processes: before an identifier that both have.
	savedKey = " saved="
	// savedSize is how long such an identifier is.
	savedSize = 16
	// MaxHead is how long a head can be.
	MaxHead = len(Head) + len(savedKey) + savedSize
)

// SavedHead is Head for a trace that was saved with address spaces. The identifier has
// 16 hexadecimal digits.
func SavedHead(id string) string { return Head[:len(Head)-1] + savedKey + id + "\n" }

// SavedID returns the identifier in a head that CutHead has found, "" if it has
// none.
func SavedID(head []byte) string {
	_, id, _ := bytes.Cut(bytes.TrimSuffix(head, []byte{'\n'}), []byte(savedKey))
	return string(id)
}

// isHead reports whether a line is a head of this version.
func isHead(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte(Head[:len(Head)-1]))
	if !ok || string(rest) == "\n" {
		return ok
	}
	id, ok := bytes.CutPrefix(rest, []byte(savedKey))
	return ok && len(id) == savedSize+1 && len(bytes.Trim(id[:savedSize], "0123456789abcdef")) == 0
}

// CutHead looks for the head at the beginning of an input, and returns its length,
// 0 if there is none. It needs more of the input to decide if more is true; whole
// means that this is all of it.
func CutHead(text []byte, whole bool) (n int, more bool, err error) {
	if !bytes.HasPrefix(text, []byte(headKey)) {
		return 0, !whole && bytes.HasPrefix([]byte(headKey), text), nil
	}
	const most = MaxHead + 8
	end := bytes.IndexByte(text[:min(len(text), most)], '\n') + 1
	switch {
	case end == 0 && len(text) < most && !whole:
		return 0, true, nil
	case end == 0 || !isHead(text[:end]):
		return 0, false, fmt.Errorf("%w: it begins with %q, and is of a later version of ustack; use that", ErrLayout, text[:min(len(text), most)])
	}
	return end, false, nil
}
