package saved

import (
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/timeline"
	"ustack/tracefs"
)

// ended attributes by mappings that can end before the trace does: the file was cut, or
// ustack was killed. It implements resolve.Attributor.
type ended struct {
	inner *timeline.Attributor
	after func(tracefs.Time) bool
}

// Attribute implements resolve.Attributor. After the end a program can have unmapped a file
// and mapped another one there, or have executed another program: a file that was mapped is
// only claimed then. What the kernel has said because of the stack stays.
func (e ended) Attribute(s *resolve.Query) {
	e.inner.Attribute(s)
	if !s.Timed || !e.after(s.Time) {
		return
	}
	for k := range s.Attributions {
		if o := &s.Attributions[k]; o.File != nil && o.Trust != filemap.Announced {
			o.Trust = filemap.Claimed
		}
	}
}

// bounded attributes by the saved mappings, as far as they go.
func (w *attributed) bounded() resolve.Attributor { return ended{w.exact, w.beyond} }
