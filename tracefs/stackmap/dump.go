package stackmap

import (
	"fmt"
	"io"
	"strconv"
)

// Dump reads the elements of a map from what "bpftool map dump -j" (or -p) has written: an
// array of
//
//	{"key":["0x04","0x00","0x00","0x00"],"value":["0x01",…]}
//
// or, of a map with values for each CPU, "values":[{"cpu":0,"value":["0x01",…]},…]. Other
// keys, such as "formatted" of maps with BTF, are passed over. An element that had gone when
// bpftool read its value has an object there, and is left out. It implements Elements.
type Dump struct {
	tokens  *tokens
	begun   bool
	element Element
	bytes   []byte // of the element
	isGone  bool   // the element
	gone    int64
}

// Is reports whether the first bytes of a file are those of such a dump.
func Is(head []byte) bool {
	const least = 2
	if len(head) < least || head[0] != '[' {
		return false
	}
	switch head[1] {
	case '{', ']', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}

// maxElement bounds the memory for an element: a stack of 127 frames has 4 KiB, and a count
// 8 bytes for each CPU.
const maxElement = 4 << 20

// maxValues bounds the values of an element: Linux has up to 8,192 CPUs.
const maxValues = 1 << 14

// NewDump reads a dump.
func NewDump(r io.Reader) *Dump { return &Dump{tokens: newTokens(r)} }

// Gone implements Elements.
func (d *Dump) Gone() int64 { return d.gone }

// Next implements Elements. Errors say at which byte of the dump they are.
func (d *Dump) Next() (*Element, error) {
	err := d.next()
	for ; err == nil && d.isGone; err = d.next() {
		d.gone++
	}
	switch {
	case err == nil:
		return &d.element, nil
	case err == io.EOF:
		return nil, io.EOF
	case err == io.ErrUnexpectedEOF:
		return nil, fmt.Errorf("byte %d of the dump: it ends too early", d.tokens.pos)
	}
	return nil, fmt.Errorf("byte %d of the dump: %w", d.tokens.pos, err)
}

func (d *Dump) next() error {
	t := d.tokens
	if !d.begun {
		d.begun = true
		if err := t.want('['); err != nil {
			return err
		}
	}
	if err := t.next(); err != nil {
		return inside(err)
	}
	switch t.kind {
	case ']':
		return io.EOF
	case '{':
		return d.object()
	}
	return t.wrong()
}

// object reads an element after its first brace.
func (d *Dump) object() error {
	d.element.Key, d.element.Values, d.bytes, d.isGone = nil, d.element.Values[:0], d.bytes[:0], false
	for {
		name, ended, err := d.name()
		if err != nil {
			return err
		}
		if ended {
			break
		}
		switch name {
		case "key":
			d.element.Key, err = d.array()
		case "value":
			err = d.value()
		case "values":
			err = d.values()
		default:
			err = d.tokens.skip()
		}
		if err != nil {
			return err
		}
	}
	if !d.isGone && (d.element.Key == nil || len(d.element.Values) == 0) {
		return fmt.Errorf("%w: an element without key and value as bytes", ErrFormat)
	}
	return nil
}

// name reads the name of a member of an object, and the first token of its value. ended: the
// object has no more.
func (d *Dump) name() (name string, ended bool, err error) {
	t := d.tokens
	if err := t.next(); err != nil {
		return "", false, inside(err)
	}
	switch t.kind {
	case '}':
		return "", true, nil
	case kindString:
		name = string(t.text)
		return name, false, inside(t.next())
	}
	return "", false, t.wrong()
}

// value reads a value of an element.
func (d *Dump) value() error {
	if d.tokens.kind == '{' { // {"error":"No such file or directory"}
		d.isGone = true
		return d.tokens.skip()
	}
	v, err := d.array()
	if err != nil {
		return err
	}
	if len(d.element.Values) == maxValues {
		return fmt.Errorf("%w: an element with more than %d values", ErrFormat, maxValues)
	}
	d.element.Values = append(d.element.Values, v)
	return nil
}

// values reads the values of all CPUs.
func (d *Dump) values() error {
	t := d.tokens
	if t.kind != '[' {
		return t.wrong()
	}
	for {
		if err := t.next(); err != nil {
			return inside(err)
		}
		switch t.kind {
		case ']':
			return nil
		case '{':
		default:
			return t.wrong()
		}
		for {
			name, ended, err := d.name()
			if err != nil {
				return err
			}
			if ended {
				break
			}
			if name == "value" {
				err = d.value()
			} else {
				err = t.skip()
			}
			if err != nil {
				return err
			}
		}
	}
}

// array reads an array of bytes, whose bracket is the token at hand.
func (d *Dump) array() ([]byte, error) {
	t, from := d.tokens, len(d.bytes)
	if t.kind != '[' {
		return nil, t.wrong()
	}
	for {
		if err := t.next(); err != nil {
			return nil, inside(err)
		}
		switch t.kind {
		case ']':
			return d.bytes[from:len(d.bytes):len(d.bytes)], nil
		case kindString:
		default:
			return nil, t.wrong()
		}
		v, err := strconv.ParseUint(string(t.text), 0, 8)
		if err != nil {
			return nil, fmt.Errorf("%w: %q is not a byte", ErrFormat, t.text)
		}
		if len(d.bytes) == maxElement {
			return nil, fmt.Errorf("%w: an element of more than %d bytes", ErrFormat, maxElement)
		}
		d.bytes = append(d.bytes, byte(v))
	}
}
