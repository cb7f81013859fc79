package stackmap

import (
	"bufio"
	"fmt"
	"io"
)

// tokens cuts JSON into tokens. It does not check the commas and colons between them.
// Strings and numbers that are longer than any that is used are cut.
type tokens struct {
	in   *bufio.Reader
	pos  int64 // of the next byte
	kind byte  // of the token at hand: one of []{} or a kind below
	text []byte
}

// Kinds of tokens that are not one character.
const (
	kindString = '"'
	kindWord   = 'w' // a number, true, false or null
)

// longest is how much of a string or word is kept.
const longest = 64

func newTokens(r io.Reader) *tokens { return &tokens{in: bufio.NewReaderSize(r, 64<<10)} }

func (t *tokens) byte() (byte, error) {
	c, err := t.in.ReadByte()
	if err == nil {
		t.pos++
	}
	return c, err
}

// next reads the next token. The error is io.EOF if there is none.
func (t *tokens) next() error {
	t.text = t.text[:0]
	for {
		c, err := t.byte()
		if err != nil {
			return err
		}
		switch c {
		case ' ', '\t', '\n', '\r', ',', ':':
			continue
		case '[', ']', '{', '}':
			t.kind = c
			return nil
		case '"':
			t.kind = kindString
			return t.string()
		}
		t.kind = kindWord
		t.keep(c)
		return t.word()
	}
}

func (t *tokens) keep(c byte) {
	if len(t.text) < longest {
		t.text = append(t.text, c)
	}
}

// string reads a string after its quote. Escapes stay as they are: no string that is used
// has one.
func (t *tokens) string() error {
	for {
		c, err := t.byte()
		if err == nil && c == '\\' {
			t.keep(c)
			c, err = t.byte()
		} else if err == nil && c == '"' {
			return nil
		}
		if err != nil {
			return inside(err)
		}
		t.keep(c)
	}
}

// word reads the rest of a number or word.
func (t *tokens) word() error {
	for {
		c, err := t.byte()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch c {
		case ' ', '\t', '\n', '\r', ',', ':', '[', ']', '{', '}', '"':
			t.pos--
			return t.in.UnreadByte()
		}
		t.keep(c)
	}
}

// inside returns the error of an end that comes too early.
func inside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// want reads the next token, which must be of a kind.
func (t *tokens) want(kind byte) error {
	if err := t.next(); err != nil {
		return inside(err)
	}
	if t.kind != kind {
		return t.wrong()
	}
	return nil
}

// wrong returns the error of the token at hand.
func (t *tokens) wrong() error {
	if t.kind == kindWord || t.kind == kindString {
		return fmt.Errorf("%w: unexpected %q", ErrFormat, t.text)
	}
	return fmt.Errorf("%w: unexpected %q", ErrFormat, t.kind)
}

// skip passes over the rest of the value whose first token is at hand.
func (t *tokens) skip() error {
	for depth := int64(0); ; {
		switch t.kind {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth <= 0 {
			return nil
		}
		if err := t.next(); err != nil {
			return inside(err)
		}
	}
}
