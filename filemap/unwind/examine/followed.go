package examine

import (
	"ustack/filemap/unwind/follow"
	"ustack/filemap/unwind/frames"
	"ustack/filemap/unwind/table"
)

// Bounds on following code: how many calls are looked at, and how many instructions are
// followed for each.
const (
	maxFollowed  = 240
	instructions = 2048
	start        = 64 // bytes of _start
)

// code is the code of a file for package follow.
type code struct {
	*follow.Starts
	e *examiner
}

// At implements follow.Code.
func (c *code) At(addr uint64) []byte {
	const longest = 15
	b, err := c.e.image.CodeAt(addr, longest)
	if err != nil {
		return nil
	}
	return b
}

// Described implements follow.Code.
func (c *code) Described(addr uint64) *table.Rules {
	for _, t := range c.e.opened {
		if r, err := t.Find(addr); err == nil && r != nil {
			return r
		}
	}
	return nil
}

// followed returns the share of calls whose caller is found by following the code, by a
// sample.
func (e *examiner) followed(c *calls) float64 {
	if !frames.Followed(e.image) || len(c.sites) == 0 {
		return 0
	}
	f := code{Starts: follow.NewStarts(e.image, frames.HardlyCovered(e.image, e.opened)), e: e}
	looked, found := 0, 0
	entry := e.image.Entry()
	for i := 0; i < len(c.sites); i += max(len(c.sites)/maxFollowed, 1) {
		site := c.sites[i]
		if looked++; entry != 0 && site-entry < start { // nothing has called it
			found++
		} else if a, _ := follow.Caller(&f, f.Starts, site, true, instructions); a.Root || a.Rules != nil {
			found++
		}
	}
	return float64(found) / float64(looked)
}
