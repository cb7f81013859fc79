package symbolize

import (
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/openfile"
	"ustack/filemap/symbol"
)

// maxPairs bounds the pairs of frames that are remembered.
const maxPairs = 1 << 15

type pair struct{ inner, outer symbol.Place }

// Skipped finds the function that unwinding by frame pointers has skipped
// between two frames, nil if there is none, or nothing proves it.
//
// A function without a frame, as most of a C library's are, leaves the frame
// pointer as it was. The unwinder then finds the frame of the caller that has
// one, in it the return address into the caller's caller, and the caller itself
// is missing. It is the function that is called right before that return
// address. This is proven if
//
//   - the instruction before the outer frame's address is a direct call, to the
//     beginning of a function of the same file, or calls the function that the
//     thread began with, and that one is known;
//   - the code of the inner frame has left the frame pointer alone;
//   - the function has a frame where it calls on, and calls lead from there to
//     the inner frame's function, only through functions that leave the frame
//     pointer alone, too;
//   - the function does not jump, at its end, to another one that may have a
//     frame: that one could be on the stack in its place.
//
// The frame pointer's part is proven by .eh_frame, by which debuggers unwind.
func (s *Symbols) Skipped(inner, outer symbol.Place) *symbol.Skipped {
	i := s.inference(inner, outer)
	if i != nil && !i.named {
		i.named = true
		s.nameSkipped(i)
	}
	if i == nil || i.skipped.Name == nil || s.refused(inner.File) || s.refused(outer.File) {
		return nil
	}
	return &i.skipped
}

// refused reports whether a file that was used is not used any more.
func (s *Symbols) refused(f *filemap.File) bool {
	if !openfile.KeepsMapped {
		return false
	}
	src := s.files[f]
	return src != nil && (src.bin == nil || src.bin.file.Doubted())
}

// Missing reports whether Skipped would find a function, if it has a name. That
// is known sooner.
func (s *Symbols) Missing(inner, outer symbol.Place) bool { return s.inference(inner, outer) != nil }

// inference is a function that is proven to be missing. Its Name is nil as long
// as it is not named, or if it has none.
type inference struct {
	skipped symbol.Skipped
	named   bool
}

// inference is nil if nothing is proven.
func (s *Symbols) inference(inner, outer symbol.Place) *inference {
	if s.opt.NoInfer || inner.File == nil || outer.File == nil || outer.Ran {
		return nil
	}
	key := pair{inner, outer}
	if i, ok := s.pairs[key]; ok {
		return i
	}
	if len(s.pairs) >= maxPairs || s.pairs == nil {
		s.pairs = make(map[pair]*inference)
	}
	i := s.infer(inner, outer)
	s.pairs[key] = i
	return i
}

// infer is inference for a pair that was not seen before.
func (s *Symbols) infer(inner, outer symbol.Place) (found *inference) {
	home := outer.File
	if b := s.begun.get(outer.Calls); b != nil {
		home = b.file
	}
	if !s.prove(inner, outer, home, func(p *proof, home *source) {
		if !p.holds(inner, outer, s.begun.get(outer.Calls)) {
			return
		}
		if off, ok := home.bin.image.Offset(p.missing.Start); ok {
			found = &inference{skipped: symbol.Skipped{File: home.want, Offset: off}}
		}
	}) {
		return nil
	}
	return found
}

// nameSkipped names a function that is missing.
func (s *Symbols) nameSkipped(i *inference) {
	if n := s.Name(i.skipped.File, i.skipped.Offset, true); n.Reason == symbol.NoReason && n.Offset == 0 {
		i.skipped.Name = &symbol.Name{Function: n.Function, Source: n.Source, Inferred: true}
		s.number(i.skipped.Name)
	}
}

// prove opens the files that a proof is about, the missing function's own among
// them, and hands it out. It does not if one of them is not at hand. sound is false if one was
// written since it was opened: its code may not be what it was.
func (s *Symbols) prove(inner, outer symbol.Place, home *filemap.File, f func(p *proof, home *source)) (sound bool) {
	files := [...]*filemap.File{outer.File, inner.File, home}
	var list [len(files)]*source
	for i, file := range files {
		list[i] = s.source(file)
		if list[i].bin == nil || i != 1 && list[i].isGo { // Go code has frames
			return false
		}
	}
	opened := list[:0:0]
	for i, file := range files {
		if s.files[file] != list[i] { // closed, to have room
			return false
		}
		if !slices.Contains(opened, list[i]) {
			opened = append(opened, list[i])
			s.memory -= list[i].memory()
		}
	}
	sound = true
	defer func() {
		for _, src := range opened {
			s.memory += src.memory()
			if src.bin.written() {
				sound = false
				s.drop(src)
			}
		}
	}()
	p := proof{outer: list[0].machineCode(), inner: list[1].machineCode(), home: list[2].machineCode()}
	if p.outer != nil && p.inner != nil && p.home != nil {
		f(&p, list[2])
	}
	return sound
}

// machineCode returns the file's code, nil without usable call frame
// information.
func (s *source) machineCode() *code {
	if !s.coded {
		s.coded, s.code = true, newCode(s.bin.image)
	}
	return s.code
}

// proof proves that a function is missing between two frames.
type proof struct {
	outer, inner *code
	home         *code     // of the missing function
	goal         *function // of the inner frame
	missing      *function
	parts        map[uint64]bool // of missing that lie elsewhere, by their beginning
}

// holds looks for the proof.
func (p *proof) holds(inner, outer symbol.Place, b *begun) bool {
	return p.called(outer, b) && p.untouched(inner) && p.alone() && p.leads()
}

// called finds the function that is called right before the outer frame: b, if
// the thread began with it, nil if unknown.
func (p *proof) called(outer symbol.Place, b *begun) bool {
	if b != nil {
		addr, ok := p.home.image.Address(b.offset)
		_, starts := p.outer.start(outer.Offset)
		return ok && starts && p.begins(addr)
	}
	at, ok := p.outer.call(outer.Offset)
	if !ok {
		return false
	}
	caller := p.outer.function(at)
	if caller == nil {
		return false
	}
	for _, s := range caller.steps {
		if s.Kind == callsite.Call && s.End() == at+1 {
			p.begins(s.Target)
		}
	}
	return p.missing != nil
}

// begins takes the function that begins at an address for the missing one.
func (p *proof) begins(addr uint64) bool {
	f := p.home.function(addr)
	if f == nil || f.Start != addr || !p.home.fresh(f, &f.Rows[0]) {
		return false
	}
	p.missing = f
	return true
}

// untouched reports whether the frame pointer is a caller's at the inner frame,
// in another function than the missing one.
func (p *proof) untouched(inner symbol.Place) bool {
	at := inner.Offset
	if !inner.Ran {
		if at == 0 {
			return false
		}
		at--
	}
	addr, ok := p.inner.image.Address(at)
	if !ok {
		return false
	}
	p.goal = p.inner.function(addr)
	if inner.Ran && p.goal != nil && p.goal.Start == addr && p.inner.afterSyscall(inner.Offset) {
		return false // it may be in the function before
	}
	return p.goal != nil && !p.goal.Signal && (p.missing == nil || !p.is(p.goal)) && p.inner.intact(p.goal, p.goal.At(addr))
}

// is reports whether a function of the inner frame's file is the missing one.
func (p *proof) is(f *function) bool { return p.inner == p.home && f.Start == p.missing.Start }

// maxVisits bounds the functions that are looked at for one proof.
const maxVisits = 512

// place is a function of a file.
type place struct {
	in *code
	f  *function
}

// alone reports whether the missing function stays on the stack until it
// returns: it jumps to no other function that may have a frame.
func (p *proof) alone() bool {
	p.parts = make(map[uint64]bool)
	list := []place{{p.home, p.missing}}
	seen := map[*function]bool{p.missing: true}
	for i := 0; i < len(list); i++ {
		in, f := list[i].in, list[i].f
		own := in == p.home && (f == p.missing || p.parts[f.Start])
		for _, s := range f.steps {
			if s.Kind != callsite.Jump && s.Kind != callsite.JumpIndirect || s.Kind == callsite.Jump && f.holds(s.Target) {
				continue
			}
			if !s.Slot && s.Kind == callsite.JumpIndirect && !in.fresh(f, f.At(s.Addr)) {
				continue // a jump table: the function has something on the stack
			}
			next, ok := p.jumps(in, s)
			if !ok || len(list)+len(next) > maxVisits {
				return false
			}
			for _, n := range next {
				switch part := own && n.in == p.home && !n.in.fresh(n.f, &n.f.Rows[0]); {
				case seen[n.f]:
					continue
				case part:
					p.parts[n.f.Start] = true
				case n.in.frames(n.f):
					return false
				}
				seen[n.f] = true
				list = append(list, n)
			}
		}
	}
	return !(p.inner == p.home && p.parts[p.goal.Start])
}

// jumps returns the functions that a jump can lead to. ok is false if unknown.
func (p *proof) jumps(in *code, s callsite.Step) (list []place, ok bool) {
	addr, name := in.end(s)
	if addr != 0 {
		f := in.function(addr)
		return []place{{in, f}}, f != nil
	}
	if name == "" || replaced(name) {
		return nil, false
	}
	for _, addr := range p.inner.exported(name) {
		f := p.inner.function(addr)
		if f == nil {
			return nil, false
		}
		list = append(list, place{p.inner, f})
	}
	return list, len(list) > 0
}

// replaced reports whether a function of the C library is one that programs
// often bring along themselves: then it is not the library's code that runs.
func replaced(name string) bool {
	switch strings.TrimLeft(name, "_") {
	case "malloc", "calloc", "realloc", "reallocarray", "free", "cfree", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc", "malloc_usable_size":
		return true
	}
	return false
}

// leads reports whether calls lead from the missing function to the inner
// frame's, with the missing function's frame and through none that touches the
// frame pointer.
func (p *proof) leads() bool {
	list := []place{{p.home, p.missing}}
	for start := range p.parts {
		if f := p.home.function(start); f != nil {
			list = append(list, place{p.home, f})
		}
	}
	own := len(list)
	seen := make(map[*function]bool)
	for i := 0; i < len(list) && len(list) < maxVisits; i++ {
		in, f := list[i].in, list[i].f
		if i >= own && in == p.inner && f.Start == p.goal.Start {
			return true
		}
		for _, s := range f.steps {
			call := s.Kind == callsite.Call || s.Kind == callsite.CallIndirect
			row := f.At(s.Addr)
			if i < own && (!call || !in.framed(f, row)) || i >= own && !in.intact(f, row) || !call && f.holds(s.Target) {
				continue
			}
			for _, n := range p.follows(in, s) {
				if !seen[n.f] {
					seen[n.f] = true
					list = append(list, n)
				}
			}
		}
	}
	return false
}

// follows returns the functions that a call or jump leads to, as far as that is
// known.
func (p *proof) follows(in *code, s callsite.Step) (list []place) {
	addr, name := in.end(s)
	if f := in.function(addr); addr != 0 && f != nil {
		list = append(list, place{in, f})
	}
	if name == "" {
		return list
	}
	for _, addr := range p.inner.exported(name) {
		if f := p.inner.function(addr); f != nil {
			list = append(list, place{p.inner, f})
		}
	}
	return list
}
