package symbolize

import (
	"debug/elf"
	"errors"

	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/symbol"
	"ustack/filemap/symbol/image"
	"ustack/filemap/symbol/lines"
)

// source has all names of the code of one file of a trace.
type source struct {
	want      *filemap.File
	bin       *object       // nil if there is none
	alt       *object       // what debug information refers to, nil if none
	debug     *object       // the separate file with debug information, nil if none
	reason    symbol.Reason // why bin is nil
	found     elfid.ID
	tries     []symbol.Try
	indexes   []*index
	isGo      bool
	whole     bool // a full symbol table is among them
	lines     *lines.Data
	linesPath string // the file that lines is of
	damaged   bool   // some of it could not be read
	mini      int64  // bytes of the unpacked .gnu_debugdata
	names     map[uint64]*symbol.Name
	named     int // bytes of the names
	tick      int

	variables    []*index // of data
	hasVariables bool     // they have been read
	code         *code    // see machineCode
	coded        bool

	// news was since's when the file was looked for.
	news uint64

	find      *finder
	withLines bool
	loaded    bool // see load
}

// open finds the file. The data that only names need is read when the first one
// is asked for: it takes time, and lookups in code alone do without.
func open(f *finder, want *filemap.File, withLines bool) *source {
	s := &source{want: want, names: make(map[uint64]*symbol.Name), find: f, withLines: withLines, news: f.since.News()}
	bin, failure := f.binary(want, &s.tries)
	if bin == nil {
		s.reason, s.found = failure.reason, failure.found
		return s
	}
	s.bin, s.isGo = bin, bin.image.IsGo()
	return s
}

// load finds the separate file with debug information and reads the symbol
// tables, once.
func (s *source) load() {
	if s.loaded || s.bin == nil {
		return
	}
	s.loaded = true
	if s.find.loading != nil {
		defer s.find.loading(s.bin.path)()
	}
	x := s.bin.image
	if x.Table(elf.SHT_SYMTAB) == nil || s.withLines && !x.Has(".debug_info") {
		s.debug = s.find.companion(s.bin, s.want.Path, &s.tries)
	}
	s.tables()
	if s.withLines {
		s.openLines(s.find)
	}
}

// tables reads the most complete symbol table, and the ones with symbols that
// it lacks.
func (s *source) tables() {
	x := s.bin.image
	if s.add(x, elf.SHT_SYMTAB, symbol.Symtab, true) {
		return
	}
	if s.debug != nil && s.add(s.debug.image, elf.SHT_SYMTAB, symbol.DebugFile, true) {
		return
	}
	s.add(x, elf.SHT_DYNSYM, symbol.Dynsym, false)
	mini, err := x.DebugData()
	if err != nil {
		s.tries = append(s.tries, symbol.Try{Path: s.bin.path, Result: err.Error()})
	}
	if mini != nil && !x.SameCode(mini) {
		s.tries = append(s.tries, symbol.Try{Path: s.bin.path, Result: ".gnu_debugdata: " + moved})
		mini = nil
	}
	if mini != nil {
		s.mini = mini.Size()
		s.add(mini, elf.SHT_SYMTAB, symbol.DebugData, false)
	}
}

// add reads a symbol table.
func (s *source) add(x *image.Image, kind elf.SectionType, from symbol.Source, all whole) bool {
	t := x.Table(kind)
	if t == nil {
		return false
	}
	i, err := newIndex(x, s.bin.image, t, from, all)
	if err != nil {
		s.tries = append(s.tries, symbol.Try{Path: s.bin.path, Result: err.Error()})
		return false
	}
	s.indexes = append(s.indexes, i)
	s.whole = s.whole || bool(i.whole)
	return len(i.spans) > 0
}

// openLines opens the debug information, the file's own before the separate
// file's.
func (s *source) openLines(f *finder) {
	for _, o := range []*object{s.bin, s.debug} {
		if o == nil {
			continue
		}
		d, err := lines.Open(o.image, s.openAlt(f, o))
		if err != nil {
			s.tries = append(s.tries, symbol.Try{Path: o.path, Result: err.Error()})
		}
		if d != nil {
			s.lines, s.linesPath = d, o.path
			return
		}
	}
}

// openAlt opens the file into which dwz has moved what the debug information of
// several files has in common, nil if there is none. Without it, functions
// inlined from there have no name.
func (s *source) openAlt(f *finder, o *object) *lines.Data {
	path, id := o.image.AltLink()
	if path == "" {
		return nil
	}
	s.alt = f.alternative(o, path, id, &s.tries)
	if s.alt == nil {
		return nil
	}
	d, err := lines.OpenAlt(s.alt.image)
	if err != nil {
		s.tries = append(s.tries, symbol.Try{Path: s.alt.path, Result: err.Error()})
		return nil
	}
	return d
}

// again reports whether the file is to be looked for again: others may have it now, or it may.
func (s *source) again() bool {
	if !openfile.KeepsMapped {
		return false
	}
	if s.bin == nil {
		return s.reason == symbol.Replaceable && s.news != s.find.since.News()
	}
	return s.bin.file.Doubted()
}

// provisional reports whether names of the file may not last, see again.
func (s *source) provisional() bool {
	if !openfile.KeepsMapped {
		return false
	}
	if s.bin == nil {
		return s.reason == symbol.Replaceable && s.find.since != nil
	}
	return s.bin.file.MayBeDoubted()
}

// written reports whether one of the files was written since it was opened. What was read of
// it may be of different files.
func (s *source) written() bool {
	return s.bin.written() || s.debug.written() || s.alt.written()
}

func (s *source) close() {
	s.alt.close()
	s.bin.close()
	s.debug.close()
}

// memory returns about how much is kept.
func (s *source) memory() int {
	n := 1024 + s.named + int(s.mini)
	for _, list := range [...][]*index{s.indexes, s.variables} {
		for _, i := range list {
			n += i.bytes()
		}
	}
	if s.lines != nil {
		n += s.lines.Memory()
	}
	if s.code != nil {
		n += s.code.size + s.code.table.Memory()
	}
	for _, o := range [...]*object{s.bin, s.debug, s.alt} {
		if o != nil {
			n += o.file.Memory()
		}
	}
	return n
}

// name finds the name of an offset.
func (s *source) name(offset uint64, ran bool) *symbol.Name {
	if s.bin == nil {
		return &symbol.Name{Reason: s.reason, Found: s.found}
	}
	s.load()
	at := offset
	innermost := ran
	ran = ran || s.trampoline(offset)
	if !ran {
		if at == 0 {
			return &symbol.Name{Reason: symbol.OutsideText}
		}
		at-- // into the call
	}
	addr, ok := s.bin.image.Address(at)
	if !ok {
		return &symbol.Name{Reason: symbol.OutsideText}
	}
	n := new(symbol.Name)
	name, start, ok := s.symbol(addr, n)
	if low, found := s.locate(addr, n, name); found && !ok {
		start, ok = low, true
	}
	switch {
	case innermost && ok && s.entered(offset, addr-start):
		*n = symbol.Name{Reason: symbol.NoSymbol}
	case !ran && !s.returns(offset) && n.Function != goexit && (ok || !s.isGo):
		*n = symbol.Name{Reason: symbol.NotACall}
	case ok:
		n.Offset = addr - start + (offset - at)
	case s.whole:
		*n = symbol.Name{Reason: symbol.NoSymbol}
	default:
		*n = symbol.Name{Reason: symbol.Stripped}
	}
	return n
}

// entered reports whether a thread that is at the beginning of a function may be in
// the one before, whose last instruction is a system call.
func (s *source) entered(offset, into uint64) bool {
	x := s.bin.image
	code, err := x.Code(offset, min(offset, callsite.Longest))
	return into == 0 && err == nil && callsite.Syscall(x.Machine, code)
}

// goexit is where goroutines return to in the end: after its first
// instruction, which is no call. A stripped program does not show it.
const goexit = "runtime.goexit"

// returns reports whether an offset can be a return address: a call is before
// it.
func (s *source) returns(offset uint64) bool {
	x := s.bin.image
	if !callsite.Known(x.Machine) {
		return true
	}
	code, err := x.Code(offset, callsite.Longest)
	return err == nil && callsite.Ends(x.Machine, code)
}

// trampoline reports whether signal handlers return to an offset.
func (s *source) trampoline(offset uint64) bool {
	if offset > 1<<62 {
		return false
	}
	code, err := s.bin.image.Code(offset+callsite.SigreturnSize, callsite.SigreturnSize)
	return err == nil && callsite.Sigreturn(s.bin.image.Machine, code)
}

// symbol finds the function of an address in the symbol tables, and where it
// begins.
func (s *source) symbol(addr uint64, n *symbol.Name) (name string, start uint64, ok bool) {
	for _, i := range s.indexes {
		if name, start, ok := i.find(addr); ok {
			n.Function, n.Source = s.pretty(name), i.source
			return name, start, true
		}
	}
	return "", 0, false
}

// locate finds the source line of an address and the functions inlined there.
// If no symbol has named the function, debug information does.
func (s *source) locate(addr uint64, n *symbol.Name, name string) (low uint64, named bool) {
	if s.lines == nil {
		return 0, false
	}
	l, ok, err := s.lines.Find(addr, name)
	if err != nil && !s.damaged {
		s.damaged = true
		s.tries = append(s.tries, symbol.Try{Path: s.linesPath, Result: "debug information is left out: " + err.Error()})
	}
	if errors.Is(err, lines.ErrTooMuch) {
		s.lines = nil
	}
	if err != nil || !ok {
		return 0, false
	}
	n.File, n.Line = l.File, l.Line
	for _, in := range l.Inlined {
		n.Inlined = append(n.Inlined, symbol.Call{Function: s.pretty(in.Function), File: n.File, Line: n.Line})
		n.File, n.Line = in.CallFile, in.CallLine
	}
	if name == "" && l.Function != "" {
		n.Function, n.Source = s.pretty(l.Function), symbol.DWARF
	}
	return l.Low, l.Function != ""
}

// pretty returns a symbol's name for people.
func (s *source) pretty(name string) string {
	if s.isGo {
		name = prettyGo(name)
	}
	return pretty(name)
}
