package tracedat

import (
	"bytes"
	"errors"
	"fmt"
)

// readV7 follows the chain of options sections of a version 7 file.
func (f *File) readV7(c *cursor) error {
	name := c.name()
	c.name() // the version of the compressor
	next := c.u64()
	if c.err != nil {
		return fmt.Errorf("reading the head of a trace.dat: %w", c.err)
	}
	var err error
	if f.codec, err = newCodec(name); err != nil {
		return err
	}
	var errs []error
	seen := make(map[uint64]bool)
	for next != 0 {
		if seen[next] || len(seen) > maxOptions {
			errs = append(errs, fmt.Errorf("byte %d: options that follow themselves", next))
			break
		}
		seen[next] = true
		var more []error
		next, more = f.optionsV7(int64(next))
		errs = append(errs, more...)
	}
	return errors.Join(errs...)
}

// section is the head of a section.
type section struct {
	id     uint64
	packed bool
	at     int64 // of its data
	size   int64 // in the file
}

// sectionAt reads the head of a section.
func (f *File) sectionAt(at int64) (s section, err error) {
	c := f.at(at)
	s.id = c.u16()
	flags := c.u16()
	c.u32() // a description
	size := c.u64()
	s.packed, s.at, s.size = flags&1 != 0, c.at, int64(size)
	if c.err == nil && (s.size < 0 || s.size > c.end-c.at) {
		c.fail("a section of %d bytes with %d left", size, c.end-c.at)
	}
	return s, c.err
}

// open returns a cursor over the data of a section, decompressed.
func (f *File) open(at int64, id uint64) (*cursor, error) {
	s, err := f.sectionAt(at)
	if err != nil {
		return nil, err
	}
	if s.id != id {
		return nil, fmt.Errorf("byte %d: section %d instead of %d", at, s.id, id)
	}
	c := f.at(s.at)
	c.end = min(c.end, s.at+s.size)
	if !s.packed {
		return c, nil
	}
	packed, size := c.u32(), c.u32()
	data := c.bytes(int64(packed))
	if c.err != nil {
		return nil, c.err
	}
	text, err := f.codec.unpack(nil, data, int(size), min(maxText, 64<<10+maxRatio*len(data)))
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", s.at, err)
	}
	return &cursor{r: bytes.NewReader(text), order: f.order, end: int64(len(text))}, nil
}

// optionsV7 reads one section of options and what they point to. A part that
// cannot be read does not hide the others.
func (f *File) optionsV7(at int64) (next uint64, errs []error) {
	c, err := f.open(at, 0)
	if err != nil {
		return 0, []error{fmt.Errorf("reading options: %w", err)}
	}
	for range maxOptions {
		o := f.next(c)
		if c.err != nil {
			return 0, append(errs, fmt.Errorf("reading options: %w", c.err))
		}
		if o.id == optDone {
			if o.size < 8 {
				return 0, errs
			}
			return c.within(o.at, o.size).u64(), errs
		}
		if f.options++; f.options > maxOptions {
			break
		}
		if err := f.optionV7(o, c); err != nil && len(errs) < maxErrors {
			errs = append(errs, err)
		}
	}
	return 0, append(errs, fmt.Errorf("more than %d options", maxOptions))
}

// maxErrors bounds the errors that are reported one by one.
const maxErrors = 10

func (f *File) optionV7(o option, c *cursor) error {
	var what string
	var read func(*cursor)
	switch o.id {
	case optBuffer:
		return f.bufferV7(c.within(o.at, o.size))
	case optHeaderInfo:
		what, read = "header_page and header_event", f.headers
	case optFtrace:
		what, read = "the formats of ftrace's events", f.ftraceFormats
	case optFormats:
		what, read = "the formats of events", f.systems
	case optKallsyms:
		f.symbols(int64(c.within(o.at, o.size).u64()))
		return nil
	case optPrintk:
		what, read = "printk_formats", f.printk
	case optCmdlines:
		what, read = "saved_cmdlines", f.cmdlines
	default:
		f.shared(o, c)
		return nil
	}
	if f.seen[o.id] {
		return fmt.Errorf("%s twice", what)
	}
	f.seen[o.id] = true
	at := c.within(o.at, o.size).u64()
	sub, err := f.open(int64(at), o.id)
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return part(what, sub, read)
}

// bufferV7 reads where the data of an instance lies.
func (f *File) bufferV7(c *cursor) error {
	at := c.u64()
	b := Buffer{Name: c.name(), Clock: c.name(), PageSize: int(c.u32())}
	cpus := c.u32()
	if cpus > maxCPUs || b.PageSize < 64 || b.PageSize > maxPage || len(f.Buffers) >= maxBuffers {
		c.fail("%d CPUs, pages of %d bytes", cpus, b.PageSize)
	}
	for i := uint64(0); i < cpus && c.err == nil; i++ {
		g := region{cpu: int32(c.u32()), at: int64(c.u64()), size: int64(c.u64())}
		if g.cpu < 0 || g.cpu >= maxCPUs {
			c.fail("CPU %d", g.cpu)
		}
		b.cpus = append(b.cpus, g)
	}
	if c.err != nil {
		return fmt.Errorf("reading instance %.80q: %w", b.Name, c.err)
	}
	s, err := f.sectionAt(int64(at))
	if err != nil && s.size == 0 {
		return fmt.Errorf("reading instance %.80q: %w", b.Name, err)
	}
	b.packed = s.packed
	f.Buffers = append(f.Buffers, b)
	return nil
}
