package tracedat

import (
	"bytes"
	"encoding/binary"
	"fmt"

	ring "ustack/tracefs/binary"
)

// ReadKernel reads what perf record copies of tracefs into its files (tracing_data_get
// in tools/perf/util/trace-event-info.c): the beginning of a trace.dat of version 6,
// without trace data. It sets the byte order, the formats of events and what events are
// printed by. After an error k has what was read before it.
func ReadKernel(data []byte, k *ring.Kernel) error {
	f := &File{r: bytes.NewReader(data), size: int64(len(data)), order: binary.LittleEndian, kernel: *k}
	c := f.at(0)
	c.want(Magic)
	version := c.name()
	big := c.number(1) != 0
	if big {
		f.order = binary.BigEndian
	}
	c.order, f.kernel.Layout.BigEndian = f.order, big
	f.longSize = int(c.number(1))
	c.u32() // the size of a page
	if c.err != nil {
		return fmt.Errorf("reading their head: %w", c.err)
	}
	if f.longSize != 4 && f.longSize != 8 {
		return fmt.Errorf("reading their head: longs of %d bytes", f.longSize)
	}
	err := f.kernelParts(c, version)
	symbols := k.Symbols
	*k = f.kernel
	if k.Symbols == nil {
		k.Symbols = symbols
	}
	return err
}

// kernelParts reads the parts, which follow each other.
func (f *File) kernelParts(c *cursor, version string) error {
	for _, p := range [...]struct {
		what string
		read func(*cursor)
	}{
		{"header_page and header_event", f.headers},
		{"the formats of ftrace's events", f.ftraceFormats},
		{"the formats of events", f.systems},
		{"kallsyms", f.kallsyms},
		{"printk_formats", f.printk},
		{"saved_cmdlines", f.cmdlines},
	} {
		if p.what == "saved_cmdlines" && version < "0.6" {
			break
		}
		if err := part(p.what, c, p.read); err != nil {
			return err
		}
	}
	return nil
}
