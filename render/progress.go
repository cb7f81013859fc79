package render

import (
	"fmt"
	"io"
	"time"
)

// Progress shows on a terminal how far a file has been read.
type Progress struct {
	to   *Sanitizer // nil to show nothing
	how  func() (read, size int64)
	next time.Time
}

// progressEvery is how often the line changes.
const progressEvery = 200 * time.Millisecond

// NewProgress shows progress on w, below the messages that are written there. It shows
// nothing if off, if how is nil, or if w is no terminal (see Output).
func NewProgress(w io.Writer, how func() (read, size int64), off bool) *Progress {
	return &Progress{to: counting(w, off || how == nil), how: how, next: time.Now().Add(progressEvery)}
}

// Step is called now and then.
func (p *Progress) Step() {
	if p == nil || p.to == nil || time.Now().Before(p.next) {
		return
	}
	read, size := p.how()
	const width = 40
	done := int(min(read*width/max(size, 1), width))
	p.to.count(fmt.Sprintf("[%-*.*s] %3d%%", width, done, "########################################", min(read*100/max(size, 1), 100)))
	p.next = time.Now().Add(progressEvery)
}

// Done clears the line.
func (p *Progress) Done() {
	if p.to != nil {
		p.to.count("")
	}
}
