package raw

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"ustack/tracefs"
	"ustack/tracefs/ring"
)

// pageReader has the sub-buffers of all CPUs, of which one record after the other is taken.
type pageReader struct {
	rings  Rings
	layout ring.Layout
	cpus   []pageCPU
	bytes  int64
}

// pageCPU is how far a CPU has been read.
type pageCPU struct {
	id      int32
	page    ring.Page
	begun   bool         // page has been set
	pending bool         // the record of page is not taken yet
	last    tracefs.Time // of the last record
}

// newPageReader returns the reader of rings; begun is a time before the first record.
func newPageReader(rings Rings, layout ring.Layout, begun tracefs.Time) pageReader {
	p := pageReader{rings: rings, layout: layout}
	for _, id := range rings.CPUs() {
		p.cpus = append(p.cpus, pageCPU{id: id, last: begun})
	}
	return p
}

// peek returns the time of the next record of a CPU; more is false if there is none yet.
// until is the time up to which all may be lost if a sub-buffer is damaged.
func (p *pageReader) peek(i int, until tracefs.Time, lost func(Loss)) (t tracefs.Time, more bool, err error) {
	c := &p.cpus[i]
	for !c.pending {
		if c.begun && c.page.Next() {
			c.pending = true
			break
		}
		if more, err := p.load(i, until, lost); err != nil || !more {
			return 0, false, err
		}
	}
	return tracefs.Time(min(c.page.Time, math.MaxInt64)), true, nil
}

// taken returns the record of which peek gave the time t. It is valid until the next peek.
func (p *pageReader) taken(i int, t tracefs.Time) []byte {
	c := &p.cpus[i]
	c.pending, c.last = false, max(c.last, t)
	return c.page.Record
}

// load begins the next sub-buffer of a CPU. It reports whether there is one.
func (p *pageReader) load(i int, until tracefs.Time, lost func(Loss)) (more bool, err error) {
	c := &p.cpus[i]
	if c.begun && c.page.Err() != nil {
		// The rest of the sub-buffer cannot be read.
		lost(Loss{CPU: c.id, From: c.last, To: max(c.last, until)})
	}
	c.begun = false
	page, fresh, err := p.rings.Next(i)
	if err != nil {
		if errors.Is(err, fs.ErrClosed) {
			return false, nil
		}
		return false, fmt.Errorf("reading raw records: %w", err)
	}
	if page == nil || !fresh {
		return false, nil
	}
	p.bytes += int64(len(page))
	c.begun = true
	_ = c.page.Reset(&p.layout, page) // its error comes at its end
	if c.page.Missed {
		first := tracefs.Time(min(c.page.Time, math.MaxInt64))
		lost(Loss{CPU: c.id, Records: c.page.Lost, From: c.last, To: max(c.last, first)})
	}
	return true, nil
}

// Close ends the reading. It may be called again, and by another goroutine.
func (p *pageReader) Close() error { return p.rings.Close() }
