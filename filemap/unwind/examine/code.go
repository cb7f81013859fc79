package examine

import (
	"cmp"
	"debug/elf"
	"slices"
	"strings"

	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/frames"
	"ustack/filemap/unwind/health"
	"ustack/filemap/unwind/table"
	"ustack/tracefs/sorting"
)

// piece is code: a section, or in a file without sections a segment.
type piece struct {
	table.Span
	section string
}

// codeOf returns the code of a file, in order of address; none is in two pieces.
// Stubs of the linker are left out: no thread waits there.
func codeOf(x *image.Image) (all []piece) {
	for i := range x.Sections {
		s := &x.Sections[i]
		stub := s.Name == ".init" || s.Name == ".fini" || strings.HasPrefix(s.Name, ".plt")
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Type != elf.SHT_NOBITS && !stub && s.Addr+s.Size > s.Addr {
			all = append(all, piece{table.Span{Start: s.Addr, End: s.Addr + s.Size}, s.Name})
		}
	}
	for i := range x.Segments {
		if s := &x.Segments[i]; len(x.Sections) == 0 && s.Exec && s.Addr+s.FileSize > s.Addr {
			all = append(all, piece{table.Span{Start: s.Addr, End: s.Addr + s.FileSize}, ""})
		}
	}
	sorting.StableFunc(all, func(a, b piece) int { return cmp.Compare(a.Start, b.Start) })
	end := uint64(0)
	for i := range all {
		all[i].Start = min(max(all[i].Start, end), all[i].End)
		end = max(end, all[i].End)
	}
	return slices.DeleteFunc(all, func(p piece) bool { return p.Start == p.End })
}

// maxFunctions bounds the functions of a table that are looked at.
const maxFunctions = 2 << 20

// spansOf returns the pieces of code that a table is about, in order of
// address.
func spansOf(t functions) (spans []table.Span) {
	t.Functions(func(s table.Span) bool {
		if s.End > s.Start {
			spans = append(spans, s)
		}
		return len(spans) < maxFunctions
	})
	sortSpans(spans)
	return spans
}

func sortSpans(spans []table.Span) {
	sorting.Func(spans, func(a, b table.Span) int { return cmp.Compare(a.Start, b.Start) })
}

// flat sorts spans, and cuts off what an earlier one has, too.
func flat(spans []table.Span) []table.Span {
	sortSpans(spans)
	out, end := spans[:0], uint64(0)
	for _, s := range spans {
		if s.Start = max(s.Start, end); s.Start < s.End {
			out = append(out, s)
			end = s.End
		}
	}
	return out
}

// cover is how many bytes of code spans are about, which are flat. It
// calls gap, which can be nil, for the rest. Padding of up to 15 bytes between two spans
// belongs to the first.
func cover(pieces []piece, spans []table.Span, gap func(p *piece, s table.Span)) (has uint64) {
	const padding = 15
	next := 0
	for i := range pieces {
		p := &pieces[i]
		done, begun := p.Start, false
		if next > 0 && spans[next-1].End > p.Start { // it lies in two pieces
			next--
		}
		for ; next < len(spans) && spans[next].Start < p.End; next++ {
			from, to := max(spans[next].Start, done), min(spans[next].End, p.End)
			if begun && from-done <= padding {
				from = done
			}
			if from >= to {
				continue
			}
			if from > done && gap != nil {
				gap(p, table.Span{Start: done, End: from})
			}
			has += to - from
			done, begun = to, true
		}
		if rest := p.End - done; rest > padding || !begun && rest > 0 {
			if gap != nil {
				gap(p, table.Span{Start: done, End: p.End})
			}
		} else {
			has += rest
		}
	}
	return has
}

func share(of, has uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(has) / float64(of)
}

// sizeOf returns how much code there is.
func sizeOf(pieces []piece) (n uint64) {
	for i := range pieces {
		n += pieces[i].End - pieces[i].Start
	}
	return n
}

// Bounds on the gaps that are taken apart for calls.
const (
	maxGaps   = 32 << 20 // bytes of all
	gapPieces = 64 << 10 // bytes at once
)

// code looks at the code itself: which functions keep frame pointers, and which code
// no table describes.
func (e *examiner) code() {
	c := frames.Count(e.image, e.sample, e.isPart)
	e.Keeping, e.Looked, e.FramePointers = c.Keeping, c.Looked, c.Check()
	e.Plain = frames.Plain(e.image, e.opened)
	e.all = flat(e.all)
	left := uint64(maxGaps)
	var gaps calls
	has := cover(e.pieces, e.all, func(p *piece, s table.Span) {
		if s.End-s.Start > e.Gap.End-e.Gap.Start {
			e.Gap = health.Gap{Start: s.Start, End: s.End, Section: p.section}
		}
		for at := s.Start; at < s.End && left > 0; at += gapPieces {
			n := min(s.End-at, gapPieces, left)
			left -= n
			e.callsIn(at, n, &gaps)
		}
	})
	e.Missing, e.Covered = e.Code-has, share(e.Code, has)
	e.Followed = e.followed(&gaps)
	e.reach(&c, float64(gaps.number), has)
}

// reach estimates whose callers are found: so many calls are in code without a table.
func (e *examiner) reach(c *frames.Counts, without float64, has uint64) {
	follows := without * e.Followed
	switch {
	case e.Plain || e.Code > 0 && (without == 0 || e.Missing <= health.StartFiles):
		e.Reach = 1
	case has == 0:
		e.Reach = e.Followed
	case c.Bytes == 0:
		e.Reach = 0
	default:
		described := float64(c.Calls) / float64(c.Bytes) * float64(has)
		e.Reach = (described + follows) / (described + without)
	}
}

// calls are the calls in code that no table is about.
type calls struct {
	number uint64
	sites  []uint64 // where some of them return to
}

// maxSites bounds the sites that are kept.
const maxSites = 1 << 16

// callsIn adds the calls that code has that lies in no known function. Bytes that cannot be
// decoded, such as data, are skipped.
func (e *examiner) callsIn(addr, size uint64, c *calls) {
	code, err := e.image.CodeAt(addr, size)
	if err != nil {
		return
	}
	frames.AllCalls(e.image, code, addr, func(site uint64) {
		if c.number++; len(c.sites) < maxSites {
			c.sites = append(c.sites, site)
		}
	})
}

// isPart reports whether a function has its beginning elsewhere, as the unlikely parts
// have that compilers put apart: there, the table says, the stack is no longer as a call
// has left it. Nor is one without a caller a function like others: _start.
func (e *examiner) isPart(s table.Span) bool {
	if e.by == nil {
		return false
	}
	r, err := e.by.Find(s.Start)
	if err != nil || r == nil {
		return false
	}
	if r.Base.Kind != table.IsRegister || r.Return.Kind == table.Undefined {
		return true
	}
	if e.Machine == elf.EM_AARCH64 {
		return r.Base.Reg != arm64SP || r.Base.N != 0
	}
	return r.Base.Reg != amd64SP || r.Base.N != 8
}

// DWARF numbers of the stack pointer.
const (
	amd64SP = 7
	arm64SP = 31
)
