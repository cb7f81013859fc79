package table

import (
	"encoding/binary"
	"sort"

	"ustack/filemap/symbol/image"
)

// Bounds on the index of functions.
const (
	maxFunctions = 4 << 20
	maxScanned   = 1 << 28 // bytes of a section that are looked through
)

// index finds the FDE of an address.
type index interface {
	// find is the offset of the last FDE that begins at an address or before.
	find(addr uint64) (off uint64, ok bool)
	memory() int
	// count is how many FDEs there are, at the offset of one of them.
	count() int
	at(i int) uint64
}

// header is the table of .eh_frame_hdr (LSB, 10.6.2), sorted by the linker.
type header struct {
	table []byte
	base  uint64 // what its numbers are counted from
	frame uint64 // the address of .eh_frame
}

// newHeader is nil if there is no such table, or it has another form than the
// one that all linkers write: the pointer to .eh_frame of 4 bytes, the count
// udata4, the table sdata4 and counted from the header.
func newHeader(x *image.Image, frame uint64) *header {
	const head = 12
	s := x.Section(".eh_frame_hdr")
	if s == nil {
		return nil
	}
	d, err := x.Data(s)
	if err != nil {
		return nil
	}
	b, err := d.Bytes(0, head)
	if err != nil || b[0] != 1 || b[1]&7 != 3 || b[2] != 0x03 || b[3] != byte(encodingData)|0x0b {
		return nil
	}
	n := uint64(binary.LittleEndian.Uint32(b[8:]))
	if n == 0 || n > maxFunctions {
		return nil
	}
	h := &header{base: s.Addr, frame: frame}
	if h.table, err = d.Bytes(head, n*8); err != nil {
		return nil
	}
	return h
}

func (h *header) number(i int) uint64 {
	return h.base + uint64(int64(int32(binary.LittleEndian.Uint32(h.table[4*i:]))))
}

// after returns how many entries begin at or before an address.
func (h *header) after(addr uint64) int {
	low, high := 0, len(h.table)/8
	for low < high {
		if mid := int(uint(low+high) >> 1); h.number(2*mid) > addr {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

func (h *header) find(addr uint64) (uint64, bool) {
	n := h.after(addr)
	if n == 0 {
		return 0, false
	}
	return h.number(2*n-1) - h.frame, true
}

func (h *header) memory() int { return len(h.table) }

// list is an index made from the section itself.
type list struct {
	base    uint64 // the first address
	entries []place
}

// place is where an FDE is: both are counted from the beginning.
type place struct{ start, off uint32 }

// scan looks through a section for FDEs of code. FDEs of code that linkers
// dropped begin at 0, where there is no code.
func (f *frames) scan(x *image.Image) *list {
	type found struct{ start, off uint64 }
	var all []found
	for off := uint64(0); off < min(f.blocks.size(), maxScanned) && len(all) < maxFunctions; {
		e, ok := f.entry(off)
		if !ok {
			break
		}
		off = e.next
		if len(e.b) == 0 {
			continue
		}
		if _, start, size, ok := f.span(&e); ok && inCode(x, start, size) {
			all = append(all, found{start, e.at})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].start < all[j].start })
	l := &list{}
	if len(all) == 0 {
		return l
	}
	l.base = all[0].start
	l.entries = make([]place, 0, len(all))
	for _, a := range all {
		if a.start-l.base > 1<<32-1 || a.off > 1<<32-1 {
			break
		}
		l.entries = append(l.entries, place{uint32(a.start - l.base), uint32(a.off)})
	}
	return l
}

// inCode reports whether a range of addresses is loaded as code.
func inCode(x *image.Image, start, size uint64) bool {
	for i := range x.Segments {
		s := &x.Segments[i]
		if s.Exec && start >= s.Addr && start-s.Addr < s.MemSize && size <= s.MemSize-(start-s.Addr) {
			return true
		}
	}
	return false
}

func (l *list) find(addr uint64) (uint64, bool) {
	i := sort.Search(len(l.entries), func(i int) bool { return l.base+uint64(l.entries[i].start) > addr })
	if i == 0 {
		return 0, false
	}
	return uint64(l.entries[i-1].off), true
}

func (l *list) memory() int { return 8 * len(l.entries) }
