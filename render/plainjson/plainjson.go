// Package plainjson writes JSON that a terminal can show: encoding/json leaves control
// characters above 0x1f in strings as they are, and U+009b is to a terminal what ESC [ is.
package plainjson

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"

	"ustack/tracefs/escape"
)

// NewEncoder returns an encoder whose output has no characters on which a terminal acts, but
// line feeds. A parser gets the same strings.
func NewEncoder(w io.Writer) *json.Encoder { return json.NewEncoder(writer{w}) }

// Marshal is json.Marshal without characters on which a terminal acts.
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return Escape(text), err
}

// writer escapes what an encoder writes, a whole value at a time.
type writer struct{ w io.Writer }

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	if _, err := w.w.Write(Escape(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Escape returns a JSON text with its characters on which a terminal acts as \u009b: there
// are none outside of strings but blanks. It returns text itself if there are none.
func Escape(text []byte) []byte {
	var out []byte
	from := 0
	for at := next(text, 0); at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if escape.Acts(r) && r > ' ' {
			out = append(out, text[from:at]...)
			const digits = "0123456789abcdef"
			out = append(out, '\\', 'u', digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15])
			from = at + n
		}
		at = next(text, at+n)
	}
	if from == 0 {
		return text
	}
	return append(out, text[from:]...)
}

// next returns where the next byte from a place on is that can begin such a character, the
// length of the text if there is none.
func next(text []byte, from int) int {
	n := bytes.IndexFunc(text[from:], func(r rune) bool { return r >= 0x7f })
	if n < 0 {
		return len(text)
	}
	return from + n
}
