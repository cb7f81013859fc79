package wait

import (
	"ustack/render/stackset"
)

// place is a call and the innermost frame of its waits.
type place struct {
	id    callID
	frame stackset.Frame
}

// placeOf returns where a stack begins; ok is false if there is no stack.
func (b *builder) placeOf(k siteKey) (p place, s *stackset.Stack, ok bool) {
	if s = b.a.stacks.Get(k.stack); s == nil {
		return p, nil, false
	}
	f := &s.Frames[0]
	return place{k.id, stackset.Frame{File: f.File, Offset: f.Offset, Address: f.Address}}, s, true
}

// callers notes for the rows whose stacks end in the C library what others at the same place
// show of callers: of short waits the kernel's stack is all that there is, as a rule.
func (b *builder) callers(rows []*Row) {
	short := make(map[place]*Callers)
	for _, r := range rows {
		if len(r.Sites) == 0 {
			continue
		}
		if p, s, ok := b.placeOf(r.site); ok && !s.Far().Application {
			r.Callers = short[p]
			if r.Callers == nil {
				r.Callers = new(Callers)
				short[p] = r.Callers
			}
		}
	}
	for _, k := range inOrder(b.groups) {
		for key, sum := range b.groups[k].sites {
			p, s, ok := b.placeOf(key)
			c := short[p]
			if !ok || c == nil || !s.Far().Application {
				continue
			}
			c.add(sum)
			if c.Stack == nil || sum.All() > c.Part {
				c.Stack, c.Part = s, sum.All()
			}
		}
	}
	for _, r := range rows {
		if r.Callers != nil && r.Callers.Stack == nil {
			r.Callers = nil
		}
	}
}
