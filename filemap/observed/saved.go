package observed

import (
	"math/bits"
	"slices"
	"sort"
	"strings"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/tracedat"
)

// Saved is what processes had mapped as trace-cmd has saved it in a trace.dat
// (tracedat.Process). By itself it gives no frame a file: no file offset is known, the
// name may be cut at a blank, and the time is not the stack's. With the files of the
// machine, a mapping that fits one segment of its file alone has that segment's offset
// (see fits), and its frames are in the file, late. Another raw
// address gets what option sym-userobj of the kernel would have printed, the
// name and the offset in the mapping (reason vma-offset), and memory that is no
// file its name. The rest stays as it is: the dump lacks memory without a name,
// so it never shows that there was nothing.
type Saved struct {
	spaces map[int32][]saved
	files  *segmentFiles // nil without the files of the machine
}

// saved is one reading of a process.
type saved struct {
	ranges []tracedat.Range
	memory []*filemap.Memory // of each range, nil if its name cannot be right
}

// NewSaved returns the Attributor of what a trace.dat has. Processes whose
// programs are not at random places are left out: before an exec others were at
// the same places, and the time of the exec is unknown.
//
// sysroot is a directory with the files of the machine, "" for none.
func NewSaved(processes []tracedat.Process, sysroot string) (*Saved, error) {
	s := &Saved{spaces: make(map[int32][]saved)}
	if sysroot != "" {
		var err error
		if s.files, err = newSegmentFiles(sysroot); err != nil {
			return nil, err
		}
	}
	memory := make(map[string]*filemap.Memory)
	for i := range processes {
		p := &processes[i]
		if !randomized(p.Ranges) {
			continue
		}
		one := saved{ranges: p.Ranges, memory: make([]*filemap.Memory, len(p.Ranges))}
		for k := range p.Ranges {
			name := p.Ranges[k].Name
			if p.Cut(name) {
				continue
			}
			if memory[name] == nil {
				memory[name] = &filemap.Memory{Name: name}
			}
			one.memory[k] = memory[name]
		}
		s.spaces[p.PID] = append(s.spaces[p.PID], one)
	}
	return s, nil
}

// Close closes the directory of files.
func (s *Saved) Close() {
	if s.files != nil {
		s.files.close()
	}
}

// randomized reports whether a process's memory is at random places.
func randomized(ranges []tracedat.Range) bool {
	i := slices.IndexFunc(ranges, func(r tracedat.Range) bool { return r.Name == "[stack]" })
	return i >= 0 && !atTop(ranges[i].End)
}

// atTop reports whether a stack ends at the top of user space, as it does if memory is at
// no random places: that is a power of two or a page less (STACK_TOP,
// arch/*/include/asm/processor.h).
func atTop(end uint64) bool {
	const page = 4096
	return bits.OnesCount64(end) <= 1 || bits.OnesCount64(end+page) <= 1
}

// Attribute implements resolve.Attributor.
func (s *Saved) Attribute(sub *resolve.Query) {
	sub.Identify()
	own, group := s.spaces[sub.TID], []saved(nil)
	if sub.TGID != sub.TID {
		group = s.spaces[sub.TGID]
	}
	if len(own) == 0 && len(group) == 0 {
		return
	}
	for k := range sub.Frames {
		f, o := &sub.Frames[k], &sub.Attributions[k]
		if f.Form != tracefs.FormPlain || o.Reason != filemap.NoAddressSpace {
			continue
		}
		addr := f.Address(sub.Text)
		if addr < notRandom {
			continue // of a program that is linked to a fixed place
		}
		place := placeIn(group, addr, placeIn(own, addr, savedPlace{}))
		if place.memory != nil && !place.clash {
			*o = place.attribution(addr)
			s.files.name(&place, addr, o)
		}
	}
}

// savedPlace is a range that an address lies in.
type savedPlace struct {
	memory     *filemap.Memory
	start, end uint64
	first      uint64 // where the lowest range of the same name before it, without others between, begins
	clash      bool   // readings do not agree
}

// placeIn adds what readings say of an address to what others have said.
func placeIn(readings []saved, addr uint64, p savedPlace) savedPlace {
	for i := range readings {
		r := readings[i].ranges
		at := sort.Search(len(r), func(i int) bool { return r[i].End > addr })
		if at == len(r) || addr < r[at].Start {
			continue
		}
		next := savedPlace{memory: readings[i].memory[at], start: r[at].Start, end: r[at].End, first: r[at].Start}
		for k := at - 1; k >= 0 && r[k].Name == r[at].Name; k-- {
			next.first = r[k].Start
		}
		if p.memory != nil && (p.memory != next.memory || p.start != next.start) {
			next.clash = true
		}
		if p.memory != nil && (p.end != next.end || p.first != next.first) {
			next.end = next.start // no segment is that short
		}
		next.clash = next.clash || p.clash || next.memory == nil
		p = next
	}
	return p
}

// attribution is what becomes of a frame. A name with a bracket is the kernel's for
// memory without a file; it ends with one, too, unless it was cut.
func (p *savedPlace) attribution(addr uint64) resolve.Attribution {
	o := resolve.Attribution{Reason: filemap.VMAOffset, Memory: p.memory}
	if p.memory.Name[0] == '[' {
		kind := procmap.Anonymous
		if strings.HasSuffix(p.memory.Name, "]") {
			kind = procmap.Classify(p.memory.Name, procmap.Dev{}, 0)
		}
		a := proof.Address{Addr: addr}
		a.In(kind, false, false, true)
		o.Reason = a.Decide().Reason
	}
	if o.Reason == filemap.VMAOffset || p.memory.Name == "[vdso]" {
		o.Offset, o.HasOffset = addr-p.start, true
	}
	return o
}
