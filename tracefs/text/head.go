package text

import (
	"bytes"
	"fmt"
)

// Head is the line that text which ustack has written begins with. It says that
// strings are as package escape writes them, in what version of that. Where a
// file does not begin with it, the kernel or another program has written the
// strings, and a backslash in them is one.
//
// No untrusted string can be at the beginning of what the kernel prints: a record
// begins with a name of 15 bytes at most, in 16 columns.
const Head = headKey + "1\n"

const headKey = "# ustack: escaped="

// CutHead looks for the head at the beginning of an input, and returns its length,
// 0 if there is none. It needs more of the input to decide if more is true; whole
// means that this is all of it.
func CutHead(text []byte, whole bool) (n int, more bool, err error) {
	if !bytes.HasPrefix(text, []byte(headKey)) {
		return 0, !whole && bytes.HasPrefix([]byte(headKey), text), nil
	}
	const most = len(Head) + 8
	end := bytes.IndexByte(text[:min(len(text), most)], '\n') + 1
	switch {
	case end == 0 && len(text) < most && !whole:
		return 0, true, nil
	case end == 0 || string(text[:end]) != Head:
		return 0, false, fmt.Errorf("%w: it begins with %q, and is of a later version of ustack; use that", ErrLayout, text[:min(len(text), most)])
	}
	return end, false, nil
}
