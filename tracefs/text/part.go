package text

import (
	"bytes"

	"ustack/tracefs"
)

// A long text can be scanned in parts, by several scanners at once, because a
// header ends whatever stood before it: the records from there on do not depend
// on the text before. A line that looks like a header need not be one (a comm
// may hold a line feed), so a part counts only if the scanner of the part
// before ended exactly where it begins.

// Fork returns a scanner that knows the layout that s has found, to be used at
// the beginning of a record. Forks may be used at the same time.
func (s *Scanner) Fork() *Scanner {
	f := &Scanner{Events: s.Events, joined: s.joined, escaped: s.escaped, saved: s.saved, layout: s.layout, columns: s.columns, clock: s.clock, slow: s.slow}
	if s.templates != nil {
		f.UseTemplates()
	}
	return f
}

// Follow notes what has changed in s since a Fork was made of it.
func (s *Scanner) Follow(of *Scanner) { s.joined = of.joined }

// Whole reports whether the layout is known and the last Scan broke off no
// record, so that a Fork can continue for s.
func (s *Scanner) Whole() bool { return s.layout != nil && s.open.kind == 0 }

// FirstHeader finds the first line after a line feed that looks like a header.
// It returns -1 if there is none, or it stands too near to the end of the text
// for a decision.
func (s *Scanner) FirstHeader(text []byte) int {
	for i := 0; ; {
		nl := bytes.IndexByte(text[i:], '\n')
		i += nl + 1
		if nl < 0 || len(text)-i < maxHeader {
			return -1
		}
		if _, ok := s.layout.parse(text[i:]); ok {
			return i
		}
	}
}

// ScanPart finds the records up to stop, where FirstHeader has found a header; the
// text goes on after it. It returns false if no record begins at stop, or the text
// cannot be used: then the contents of b are invalid.
func (s *Scanner) ScanPart(b *tracefs.Batch, stop int) bool {
	if s.templates != nil {
		s.templates.newScan()
	}
	b.Escaped = s.escaped
	w := walk{s: s, b: b, o: open{rec: -1}, stop: stop, join: s.join()}
	if s.clock.colon != 0 {
		w.timed(&s.clock)
	}
	if err := w.lines(MoreSoon); err != nil || w.i != stop {
		return false
	}
	if w.join >= 0 && !s.joined {
		return false // the parts after it are of another file, too
	}
	w.close(stop)
	w.sum(stop)
	w.joinedRecords(stop)
	return true
}
