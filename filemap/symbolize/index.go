package symbolize

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"ustack/filemap/symbol"
	"ustack/filemap/symbol/cfi"
	"ustack/filemap/symbol/image"
)

// span is a run of addresses that belong to one symbol. The spans of an index
// are in order and do not overlap.
type span struct {
	start, end uint64
	name       uint32 // place in the string table
	back       uint32 // how far the symbol's beginning lies before start
}

// index is a symbol table for looking addresses up.
type index struct {
	source symbol.Source
	spans  []span
	names  image.Data
	whole  whole
}

// spanBytes is what a span needs.
const spanBytes = 24

func (x *index) bytes() int { return len(x.spans)*spanBytes + x.names.Memory() }

// find returns the symbol that holds an address, and where it begins.
func (x *index) find(addr uint64) (name string, start uint64, ok bool) {
	i, found := slices.BinarySearchFunc(x.spans, addr, func(s span, a uint64) int { return cmp.Compare(s.start, a) })
	if !found {
		i--
	}
	if i < 0 || addr >= x.spans[i].end {
		return "", 0, false
	}
	s := &x.spans[i]
	name, ok = x.names.String(uint64(s.name))
	return name, s.start - uint64(s.back), ok && name != ""
}

// whole is whether a table has all symbols of a file: then a symbol without a size
// reaches to the next one. A table that was thinned out has gaps in which other
// functions lie. strip -x and ld -x leave out the local symbols first: a table that
// has none of code is not whole, as the start files of all programs have some.
type whole bool

// newIndex makes an index of the symbols of a table that lie in code.
//
// Which symbol names an address:
//   - one whose size covers the address; of several, the one that begins last
//     (a label with a size inside a function);
//   - of aliases (same beginning, same size) a function before a label, then
//     the order of better;
//   - in a whole table, a symbol without a size reaches to the next symbol, the
//     next call frame information or the end of its section, unless it lies inside
//     a symbol with a size: of an object file that was stripped before it was linked
//     the local functions have no symbols, and come after those of the start files; in
//     another one, as far as the call frame information that begins there: code
//     written in assembly often has no sizes. addr2line goes as far for symbols
//     with a size too, and so names code that is not theirs.
//
// The call frame information is that of bin, the file itself.
func newIndex(x, bin *image.Image, table *image.Section, source symbol.Source, all whole) (*index, error) {
	names, err := x.Strings(table)
	if err != nil {
		return nil, err
	}
	var list []image.Symbol
	var edges []uint64 // where anything begins
	text, local := near(&names), whole(false)
	err = x.Symbols(table, func(s image.Symbol) {
		if !x.Sections[s.Section].Holds(s.Addr) {
			return
		}
		if all && !local && s.Bind == elf.STB_LOCAL {
			name, ok := text.String(uint64(s.Name))
			local = whole(ok && !x.IsMarker(name))
		}
		if all {
			edges = append(edges, s.Addr)
		}
		if s.Type != elf.STT_OBJECT && (s.Size > 0 || all) {
			list = append(list, s)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", table.Name, err)
	}
	slices.Sort(edges)
	for i := range list {
		s := &list[i]
		in := &x.Sections[s.Section]
		room := in.Size - (s.Addr - in.Addr)
		s.Size = min(s.Size, room)
	}
	frames, err := cfi.Open(bin)
	if err != nil {
		frames = nil
	}
	if all && !local {
		list = framed(x, frames, list)
	}
	list = unalias(x, text, list, x.IsGo())
	list = extend(x, frames, list, edges)
	return &index{source: source, spans: flatten(list), names: names, whole: all && local}, nil
}

// framed sizes symbols without a size by the call frame information that begins
// there, or drops them.
func framed(x *image.Image, frames *cfi.Table, list []image.Symbol) []image.Symbol {
	out := list[:0]
	for _, s := range list {
		if s.Size == 0 && frames != nil {
			if f := frames.Find(s.Addr); f != nil && f.Start == s.Addr && f.End > f.Start {
				s.Size = min(f.End-f.Start, x.Sections[s.Section].Addr+x.Sections[s.Section].Size-s.Addr)
			}
		}
		if s.Size > 0 {
			out = append(out, s)
		}
	}
	return out
}

// near returns a string table for reading many names: in memory, if it is not
// too large for that.
func near(names *image.Data) *image.Data {
	const atMost = 64 << 20
	if names.Size() > atMost {
		return names
	}
	b, err := names.Bytes(0, names.Size())
	if err != nil {
		return names
	}
	d := image.MemoryData(b)
	return &d
}

// byPlace orders symbols by address, the longer one first.
func byPlace(a, b image.Symbol) int {
	return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(b.Size, a.Size))
}

// unalias sorts symbols by place and leaves the best one of each. Marks of the
// assembler are dropped; marked means that functions can be marks, too.
func unalias(x *image.Image, names *image.Data, list []image.Symbol, marked bool) []image.Symbol {
	slices.SortStableFunc(list, byPlace)
	out := list[:0]
	for i := 0; i < len(list); {
		n := i + 1
		for n < len(list) && byPlace(list[i], list[n]) == 0 {
			n++
		}
		if n == i+1 && !marked && list[i].Type != elf.STT_NOTYPE {
			out = append(out, list[i]) // needs no look at its name
		} else if best, ok := choose(x, names, list[i:n]); ok {
			out = append(out, best)
		}
		i = n
	}
	return out
}

// choose returns the best of several symbols of one place.
func choose(x *image.Image, names *image.Data, same []image.Symbol) (best image.Symbol, ok bool) {
	bestName := ""
	for _, s := range same {
		name, found := names.String(uint64(s.Name))
		if !found || x.IsMarker(name) {
			continue
		}
		if !ok || better(s, name, best, bestName) {
			best, bestName, ok = s, name, true
		}
	}
	return best, ok
}

// better reports whether a is a better name than b: functions before labels,
// then the common name, which has the fewest underscores in front
// (pthread_mutex_lock, not ___pthread_mutex_lock) and no version in it; then
// exported ones; then, for a choice that does not depend on the order of the
// table, the shorter and the first in the alphabet.
func better(a image.Symbol, an string, b image.Symbol, bn string) bool {
	under := func(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }
	label := func(s image.Symbol) int { return one(s.Type == elf.STT_NOTYPE) }
	hidden := func(s image.Symbol) int { return one(s.Bind == elf.STB_LOCAL) }
	versioned := func(s string) int { return one(strings.IndexByte(s, '@') >= 0) }
	return cmp.Or(
		cmp.Compare(label(a), label(b)),
		cmp.Compare(under(an), under(bn)),
		cmp.Compare(versioned(an), versioned(bn)),
		cmp.Compare(hidden(a), hidden(b)),
		cmp.Compare(len(an), len(bn)),
		strings.Compare(an, bn),
	) < 0
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// extend gives symbols without a size one, or drops them if they lie inside
// others. frames is nil if there is no call frame information.
func extend(x *image.Image, frames *cfi.Table, list []image.Symbol, edges []uint64) []image.Symbol {
	out := list[:0]
	reach := uint64(0) // where the symbols with a size so far end
	for _, s := range list {
		if s.Size > 0 {
			reach = max(reach, s.Addr+s.Size)
			out = append(out, s)
			continue
		}
		if s.Addr < reach {
			continue
		}
		in := &x.Sections[s.Section]
		end := in.Addr + in.Size
		if i, _ := slices.BinarySearch(edges, s.Addr+1); i < len(edges) {
			end = min(end, edges[i])
		}
		if frames != nil {
			if next, ok := frames.Next(s.Addr); ok {
				end = min(end, next)
			}
		}
		if s.Size = end - s.Addr; s.Size > 0 {
			out = append(out, s)
		}
	}
	return out
}

// flatten makes spans of symbols in order that may lie inside each other or
// overlap: at each address, the one that begins last counts.
func flatten(list []image.Symbol) []span {
	spans := make([]span, 0, len(list))
	var open []image.Symbol
	pos := uint64(0)
	emit := func(s image.Symbol, end uint64) {
		if back := pos - s.Addr; pos < end && back < 1<<32 {
			spans = append(spans, span{start: pos, end: end, name: s.Name, back: uint32(back)})
		}
		pos = max(pos, end)
	}
	closeUntil := func(at uint64) {
		for n := len(open); n > 0 && open[n-1].Addr+open[n-1].Size <= at; n = len(open) {
			emit(open[n-1], open[n-1].Addr+open[n-1].Size)
			open = open[:n-1]
		}
	}
	for _, s := range list {
		closeUntil(s.Addr)
		if n := len(open); n > 0 {
			emit(open[n-1], s.Addr)
		}
		pos = max(pos, s.Addr)
		open = append(open, s)
	}
	closeUntil(^uint64(0))
	return slices.Clip(spans)
}
