package render

import (
	"fmt"
	"io"
	"time"

	"ustack/filemap/resolve"
)

// Counter shows on a terminal the counts of a trace under way.
type Counter struct {
	w    io.Writer
	next time.Time
	off  bool
	on   bool
}

// counterEvery is how often the line changes.
const counterEvery = time.Second

// NewCounter shows counts on w, nothing if off.
func NewCounter(w io.Writer, off bool) *Counter {
	if s, ok := w.(*Sanitizer); ok {
		w = s.w // this text is ours
	}
	return &Counter{w: w, off: off, next: time.Now().Add(counterEvery)}
}

// Step is called now and then.
func (c *Counter) Step(t *resolve.Totals) {
	if c.off || time.Now().Before(c.next) {
		return
	}
	lost, exact := t.LostRecords()
	more := ""
	if !exact {
		more = "at least "
	}
	fmt.Fprintf(c.w, "\r%d events, %d stacks, %s%d lost ", t.Events, t.Stacks, more, lost)
	c.on = true
	c.next = time.Now().Add(counterEvery)
}

// Done clears the line.
func (c *Counter) Done() {
	if c.on {
		fmt.Fprintf(c.w, "\r%60s\r", "")
		c.on = false
	}
}
