package text

import (
	"ustack/tracefs"
)

// templates recognises stacks whose frames have been seen before. It is a cache:
// other stacks are parsed. A stack can be in any of the ways of one set.
//
// A trace has some thousand templates, more than the processor keeps near. So
// where a stack ends, and where the next line is, comes from its own text;
// the far memory is only compared, while the walk already goes on.
type templates struct {
	sets      [1 << setBits][ways]templateWay
	texts     [ways << setBits][nearTemplate]byte // of templates that are not longer
	templates [ways << setBits]*tracefs.Template  // nil: seen once
	scans     uint32
	bytes     int // of all templates
}

const (
	setBits = 11
	ways    = 4
	// nearTemplate is the size of most templates; maxTemplate bounds the size of
	// one, maxTemplates of all.
	nearTemplate = 256
	maxTemplate  = 2 << 10
	maxTemplates = 2 << 20
	// templateCredit is how often other stacks must come by before a template
	// leaves its place.
	templateCredit = 8
)

// templateWay is the part of a template that must be near.
type templateWay struct {
	tag    uint32 // of the key
	scan   uint32 // that met the template last
	index  uint32 // in the batch of that scan
	size   uint16 // of the text, 0 if there is no template
	lines  uint8  // of the text
	credit uint8
}

// templateKey mixes the addresses and hashes of the frames that text begins with,
// and returns how long the frames are, 0 if they cannot be a template. The line
// that follows them is no frame.
func templateKey(text []byte) (key uint64, size int) {
	const addr, hash, line = 14, 28, 37
	const prime = 0x9e3779b97f4a7c15
	for at := 0; at <= maxTemplate && at+fastMargin <= len(text); {
		p := (*[fastMargin]byte)(text[at:])
		first := le64(p[:])
		if first&mask(6) != frameStart {
			if first&mask(4) == frameStart&mask(4) {
				return 0, 0
			}
			return key, at
		}
		digits := le64(p[hash:])
		at += line
		if p[line-1] != '\n' {
			k := lineFeedIn(digits)
			if k == 8 {
				return 0, 0
			}
			digits &= mask(k)
			at += k - 8
		}
		key = ((key^le64(p[addr:]))*prime ^ digits) * prime
	}
	return 0, 0
}

// place returns where a key belongs: a set, and the tag that identifies it
// there.
func place(key uint64) (set int, tag uint32) {
	return int(key >> (64 - setBits)), uint32(key>>16) | 1
}

// newScan notes that a batch without templates comes next.
func (s *templates) newScan() {
	if s.scans++; s.scans != 0 {
		return
	}
	for n := range s.sets {
		for way := range s.sets[n] {
			s.sets[n][way].scan = 0
		}
	}
	s.scans = 1
}

// find looks up the frames that begin at i, and puts the template in the batch if it
// is known; its way then has the place. build means that the stack should be given
// to add once its frames are parsed.
func (s *templates) find(b *tracefs.Batch, i int) (known *templateWay, size int, build bool) {
	text := b.Text[i:]
	key, size := templateKey(text)
	if size == 0 {
		return nil, 0, false
	}
	n, tag := place(key)
	for way := range s.sets[n] {
		w := &s.sets[n][way]
		if w.tag != tag {
			continue
		}
		if w.size == 0 {
			return nil, 0, true
		}
		at := n*ways + way
		if int(w.size) != size || !s.equal(at, text[:size]) {
			continue
		}
		w.credit = templateCredit
		if w.scan != s.scans {
			w.scan, w.index = s.scans, uint32(len(b.Templates))
			b.Templates = append(b.Templates, s.templates[at])
		}
		return w, size, false
	}
	s.meet(n, tag)
	return nil, 0, false
}

// equal compares a template with text of its size.
func (s *templates) equal(at int, text []byte) bool {
	if len(text) <= nearTemplate {
		return string(text) == string(s.texts[at][:len(text)])
	}
	return string(text) == string(s.templates[at].Text)
}

// meet notes that a stack has been seen once, if there is place or a template
// that has not come for long.
func (s *templates) meet(n int, tag uint32) {
	set := &s.sets[n]
	least := 0
	for way := range set {
		if set[way].credit < set[least].credit {
			least = way
		}
	}
	if set[least].credit > 0 {
		for way := range set {
			set[way].credit--
		}
		return
	}
	s.bytes -= int(set[least].size)
	set[least] = templateWay{tag: tag}
	s.templates[n*ways+least] = nil
}

// add makes a template of frames that lie in text[from:to] without a gap.
func (s *templates) add(text []byte, from, to int, frames []tracefs.Frame) {
	key, size := templateKey(text[from:])
	if size != to-from || s.bytes+size > maxTemplates || len(frames) == 0 {
		return
	}
	n, tag := place(key)
	for way := range s.sets[n] {
		w := &s.sets[n][way]
		if w.tag != tag || w.size != 0 {
			continue
		}
		sh := &tracefs.Template{Text: append([]byte(nil), text[from:to]...), Frames: append([]tracefs.Frame(nil), frames...)}
		for i := range sh.Frames {
			f := &sh.Frames[i]
			f.Off, f.AddrEnd, f.End = f.Off-uint32(from), f.AddrEnd-uint32(from), f.End-uint32(from)
		}
		s.templates[n*ways+way] = sh
		copy(s.texts[n*ways+way][:], sh.Text)
		w.size, w.lines = uint16(size), uint8(len(frames))
		s.bytes += size
		return
	}
}
