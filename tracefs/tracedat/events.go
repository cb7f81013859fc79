package tracedat

import (
	"bytes"
	"fmt"

	ring "ustack/tracefs/binary"
	"ustack/tracefs/format"
)

// headers reads header_page and header_event.
func (f *File) headers(c *cursor) {
	c.want("header_page\x00")
	page := c.sized(8)
	c.want("header_event\x00")
	event := c.sized(8)
	if c.err != nil {
		return
	}
	p, err := format.ParsePage(page)
	if err == nil {
		f.kernel.Layout.Page = *p
		err = format.CheckEntry(event)
	}
	if err != nil {
		c.fail("%v", err)
	}
}

// maxEvents bounds the formats of a system, maxSystems these; a kernel has
// about 2500 in 130.
const (
	maxEvents  = 1 << 16
	maxSystems = 1 << 12
)

// formats reads a number and so many format files.
func (f *File) formats(c *cursor, system string) {
	n := c.u32()
	if n > maxEvents {
		c.fail("%d events", n)
	}
	for i := uint64(0); i < n && c.err == nil; i++ {
		at := c.at
		text := c.sized(8)
		if c.err != nil {
			return
		}
		e, err := format.Parse(bytes.TrimRight(text, "\x00"))
		if err != nil {
			c.at = at
			c.fail("the format of an event of %.40q: %v", system, err)
			return
		}
		e.System = system
		f.kernel.Events = append(f.kernel.Events, e)
	}
}

func (f *File) ftraceFormats(c *cursor) { f.formats(c, "ftrace") }

// systems reads the formats of all other systems.
func (f *File) systems(c *cursor) {
	n := c.u32()
	if n > maxSystems {
		c.fail("%d systems", n)
	}
	for i := uint64(0); i < n && c.err == nil; i++ {
		f.formats(c, c.name())
	}
}

// kallsyms of a version 6 file are there and passed by.
func (f *File) kallsyms(c *cursor) {
	at, size := c.at, int64(c.u32())
	if size > c.end-c.at {
		c.fail("%d bytes with %d left", size, c.end-c.at)
		return
	}
	c.at += size
	if size > 0 {
		f.kernel.Symbols = ring.NewSymbols(func() []byte { return f.at(at).sized(4) })
	}
}

// symbols of a version 7 file are read when they are needed. A section that
// cannot be read has none.
func (f *File) symbols(at int64) {
	f.kernel.Symbols = ring.NewSymbols(func() []byte {
		c, err := f.open(at, optKallsyms)
		if err != nil {
			return nil
		}
		return c.sized(4)
	})
}

func (f *File) printk(c *cursor) {
	f.kernel.Strings = ring.ParseStrings(bytes.TrimRight(c.sized(4), "\x00"))
}

func (f *File) cmdlines(c *cursor) {
	f.kernel.Comms = ring.ParseComms(string(bytes.TrimRight(c.sized(8), "\x00")))
}

// part reads one part of the file and says which it was if it cannot.
func part(what string, c *cursor, read func(*cursor)) error {
	if c.err == nil {
		read(c)
	}
	if c.err != nil {
		return fmt.Errorf("reading %s: %w", what, c.err)
	}
	return nil
}
