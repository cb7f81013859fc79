package tracedat

import (
	"encoding/binary"
	"fmt"
	"io"
)

// cursor reads numbers and texts of a part of the file. The first error stays,
// and everything after it is zero.
type cursor struct {
	r     io.ReaderAt
	order binary.ByteOrder
	at    int64 // where the next byte is, in the file or in what was decompressed
	end   int64
	err   error
}

// maxText bounds one text; kallsyms is the largest.
const maxText = 64 << 20

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("byte %d: %s", c.at, fmt.Sprintf(format, args...))
	}
}

// bytes reads n bytes. It takes no memory for bytes that are missing.
func (c *cursor) bytes(n int64) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > c.end-c.at {
		c.fail("%d bytes with %d left", n, c.end-c.at)
		return nil
	}
	if n > maxText {
		c.fail("a part of %d bytes", n)
		return nil
	}
	b := make([]byte, n)
	if got, err := c.r.ReadAt(b, c.at); got < len(b) {
		c.fail("%v", err)
		return nil
	}
	c.at += n
	return b
}

func (c *cursor) number(size int64) uint64 {
	b := c.bytes(size)
	switch {
	case b == nil:
		return 0
	case size == 1:
		return uint64(b[0])
	case size == 2:
		return uint64(c.order.Uint16(b))
	case size == 4:
		return uint64(c.order.Uint32(b))
	}
	return c.order.Uint64(b)
}

func (c *cursor) u16() uint64 { return c.number(2) }
func (c *cursor) u32() uint64 { return c.number(4) }
func (c *cursor) u64() uint64 { return c.number(8) }

// sized reads a size of so many bytes and then as much text.
func (c *cursor) sized(size int64) []byte {
	n := c.number(size)
	if n > maxText {
		c.fail("a part of %d bytes", n)
		return nil
	}
	return c.bytes(int64(n))
}

// maxName bounds a string that a NUL ends.
const maxName = 4096

// name reads a string up to its NUL.
func (c *cursor) name() string {
	var b []byte
	for {
		n := min(64, c.end-c.at)
		part := c.bytes(n)
		for i, ch := range part {
			if ch == 0 {
				c.at -= int64(len(part) - i - 1)
				return string(append(b, part[:i]...))
			}
		}
		if b = append(b, part...); len(part) == 0 || len(b) > maxName {
			c.fail("a name without end")
			return ""
		}
	}
}

// want reads a string that must be there.
func (c *cursor) want(text string) {
	at := c.at
	if got := c.bytes(int64(len(text))); c.err == nil && string(got) != text {
		c.at = at
		c.fail("%q instead of %q", got, text)
	}
}

// within returns a cursor over n bytes at an offset of the same file.
func (c *cursor) within(at, n int64) *cursor {
	sub := &cursor{r: c.r, order: c.order, at: at, end: at + n}
	if at < 0 || n < 0 || at > c.end || n > c.end-at {
		sub.end = sub.at
		sub.err = fmt.Errorf("byte %d: a part of %d bytes, beyond the end of the file at %d", at, n, c.end)
	}
	return sub
}
