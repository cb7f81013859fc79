package tracedat

import (
	"bytes"

	ring "ustack/tracefs/binary"
)

// Options of trace.dat (trace-cmd.dat.v7(5)). The rest does not matter here.
const (
	optDone       = 0
	optBuffer     = 3
	optTraceClock = 4
	optUname      = 5
	optCPUCount   = 8
	optProcMaps   = 10
	optHeaderInfo = 16
	optFtrace     = 17
	optFormats    = 18
	optKallsyms   = 19
	optPrintk     = 20
	optCmdlines   = 21
)

// option is one option; at is where its data begins in the file.
type option struct {
	id   uint64
	at   int64
	size int64
}

// maxOptions bounds the options of a file.
const maxOptions = 1 << 16

// next reads the head of an option and goes to the next one. In version 6 the
// last one has no size.
func (f *File) next(c *cursor) option {
	o := option{id: c.u16()}
	if o.id == optDone && f.Version == 6 {
		return o
	}
	o.size = int64(c.u32())
	o.at = c.at
	if o.size > c.end-c.at {
		c.fail("an option of %d bytes with %d left", o.size, c.end-c.at)
	}
	c.at += o.size
	return o
}

// shared takes the options that both versions have.
func (f *File) shared(o option, c *cursor) {
	text := func() string { return string(bytes.TrimRight(c.within(o.at, o.size).bytes(o.size), "\x00")) }
	switch o.id {
	case optTraceClock:
		f.clock = ring.ParseClock(text())
	case optUname:
		f.kernel.Release = ring.ReleaseOf(text())
	case optProcMaps:
		if f.procMaps += o.size; f.procMaps > maxProcMaps {
			f.manyProcMaps = true
			return
		}
		f.ProcMaps = append(f.ProcMaps, text())
	case optCPUCount:
		if n := c.within(o.at, o.size).u32(); n > 0 && n <= maxCPUs {
			f.cpus = int(n)
		}
	}
}
