package render

import (
	"fmt"
	"io"
	"time"
)

// Progress shows on a terminal how far a file has been read.
type Progress struct {
	w    io.Writer
	how  func() (read, size int64)
	next time.Time
	on   bool
}

// progressEvery is how often the line changes.
const progressEvery = 200 * time.Millisecond

// NewProgress shows progress on w. It shows nothing if off, or if how is nil.
func NewProgress(w io.Writer, how func() (read, size int64), off bool) *Progress {
	if s, ok := w.(*Sanitizer); ok {
		w = s.w // this text is ours
	}
	p := &Progress{w: w, how: how}
	if off || how == nil {
		p.how = nil
	} else {
		p.next = time.Now().Add(progressEvery)
	}
	return p
}

// Step is called now and then.
func (p *Progress) Step() {
	if p == nil {
		return
	}
	if p.how == nil || time.Now().Before(p.next) {
		return
	}
	read, size := p.how()
	const width = 40
	done := int(min(read*width/max(size, 1), width))
	fmt.Fprintf(p.w, "\r[%-*.*s] %3d%%", width, done, "########################################", min(read*100/max(size, 1), 100))
	p.on = true
	p.next = time.Now().Add(progressEvery)
}

// Done clears the line.
func (p *Progress) Done() {
	if p.on {
		fmt.Fprintf(p.w, "\r%60s\r", "")
		p.on = false
	}
}
