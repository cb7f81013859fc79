package tracedat

import (
	"fmt"
	"io"

	ring "ustack/tracefs/binary"
)

// pages gives the sub-buffers of one CPU.
func (f *File) pages(b *Buffer, g region, read func(int)) ring.Pages {
	if read == nil {
		read = func(int) {}
	}
	c := f.at(0)
	sub := c.within(g.at, g.size)
	if sub.err != nil && g.at >= 0 && g.at < f.size && g.size > 0 {
		// Cut off: the part that is there is read, and the rest is missed.
		return &cutOff{short: sub.err, inner: f.reader(b, f.at(g.at), read)}
	}
	if sub.err != nil {
		return &cutOff{short: sub.err}
	}
	if g.size == 0 {
		return &cutOff{}
	}
	return f.reader(b, sub, read)
}

func (f *File) reader(b *Buffer, c *cursor, read func(int)) ring.Pages {
	if b.packed {
		c.end = min(f.size, c.end+4) // trace-cmd does not count the number of chunks
		chunks := c.u32()
		return &packed{c: c, codec: f.codec, chunks: chunks, size: b.PageSize, read: read}
	}
	return ring.NewPages(io.NewSectionReader(f.r, c.at, c.end-c.at), b.PageSize, read)
}

// cutOff is a region that ends before its time: it gives what another one
// gives, and then the error.
type cutOff struct {
	inner ring.Pages
	short error
}

// Page implements binary.Pages.
func (p *cutOff) Page() ([]byte, error) {
	if p.inner != nil {
		page, err := p.inner.Page()
		if err != io.EOF {
			return page, err
		}
	}
	if p.short != nil {
		return nil, p.short
	}
	return nil, io.EOF
}

// Bounds of what one chunk is decompressed to: in all, and by the bytes that it
// has in the file. trace-cmd makes chunks of 10 to 1000 pages; chunks of nearly
// empty pages have come down to a hundredth.
const (
	maxChunk = 16 << 20
	maxRatio = 1024
)

// packed is a region of compressed chunks.
type packed struct {
	c      *cursor
	codec  codec
	chunks uint64 // left
	size   int    // of a page
	read   func(int)
	buf    []byte
	rest   []byte
}

// Page implements binary.Pages.
func (p *packed) Page() ([]byte, error) {
	for len(p.rest) == 0 {
		if p.c.err != nil {
			return nil, p.c.err
		}
		if p.chunks == 0 {
			return nil, io.EOF
		}
		if err := p.load(); err != nil {
			p.chunks = 0
			return nil, err
		}
	}
	if len(p.rest) < p.size {
		page := p.rest
		p.rest, p.chunks = nil, 0
		return page, fmt.Errorf("it ends after %d of %d bytes", len(page), p.size)
	}
	page := p.rest[:p.size]
	p.rest = p.rest[p.size:]
	return page, nil
}

// load decompresses the next chunk.
func (p *packed) load() error {
	at := p.c.at
	p.chunks--
	data, size := p.c.u32(), p.c.u32()
	in := p.c.bytes(int64(data))
	if p.c.err != nil {
		return p.c.err
	}
	p.read(len(in) + 8)
	var err error
	p.buf, err = p.codec.unpack(p.buf[:0], in, int(size), min(maxChunk, 64<<10+maxRatio*len(in)))
	if err != nil {
		return fmt.Errorf("byte %d: decompressing: %w", at, err)
	}
	p.rest = p.buf
	return nil
}
