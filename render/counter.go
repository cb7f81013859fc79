package render

import (
	"fmt"
	"io"
	"time"

	"ustack/filemap/resolve"
)

// Counter shows on a terminal the counts of a trace under way.
type Counter struct {
	to   *Sanitizer // nil to show nothing
	next time.Time
}

// counterEvery is how often the line changes.
const counterEvery = time.Second

// NewCounter shows counts on w, below the messages that others write there. It shows
// nothing if off, or if w is no terminal (see Output).
func NewCounter(w io.Writer, off bool) *Counter {
	return &Counter{to: counting(w, off), next: time.Now().Add(counterEvery)}
}

// counting returns the terminal of a counter, nil for none.
func counting(w io.Writer, off bool) *Sanitizer {
	to, ok := w.(*Sanitizer)
	if off || !ok {
		return nil
	}
	return to
}

// Step is called now and then.
func (c *Counter) Step(t *resolve.Totals) {
	if c.to == nil || time.Now().Before(c.next) {
		return
	}
	lost, exact := t.LostRecords()
	more := ""
	if !exact {
		more = "at least "
	}
	c.to.showStatus(fmt.Sprintf("%d events, %d stacks, %s%d lost ", t.Events, t.Stacks, more, lost))
	c.next = time.Now().Add(counterEvery)
}

// Done clears the line.
func (c *Counter) Done() {
	if c.to != nil {
		c.to.showStatus("")
	}
}
