package symbolize

import (
	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/filemap/symbol"
)

// Entries reads from files by which instructions threads have entered system calls. It is not for
// several goroutines at once.
type Entries struct {
	symbols *Symbols
	known   map[symbol.Place]callsite.Entry
	looked  map[*filemap.File]int
}

// Bounds on memory, and on the time that a file with many places takes: of more than maxLooks
// nothing is there.
const (
	maxEntries = 1 << 14
	maxLooks   = 1 << 10
)

// NewEntries returns Entries of the files of a machine, as options say for names.
func NewEntries(opt Options) (*Entries, error) {
	s, err := New(Options{Sysroot: opt.Sysroot, Since: opt.Since})
	if err != nil {
		return nil, err
	}
	return &Entries{symbols: s, known: make(map[symbol.Place]callsite.Entry), looked: make(map[*filemap.File]int)}, nil
}

// Here reports whether the trace is made now, on this machine: what has no file then is in none.
func (e *Entries) Here() bool { return e.symbols.opt.Since != nil }

// Entry returns by which instruction a thread has entered a system call that is at an offset of a
// file, callsite.UnknownEntry if the file cannot be read. Each place is looked at once.
func (e *Entries) Entry(f *filemap.File, offset uint64) callsite.Entry {
	at := symbol.Place{File: f, Offset: offset}
	way, ok := e.known[at]
	if ok {
		return way
	}
	if len(e.known) >= maxEntries {
		clear(e.known)
	}
	if way = callsite.NoEntry; e.looked[f] < maxLooks {
		e.looked[f]++
		way = e.look(f, offset)
	}
	e.known[at] = way
	return way
}

// look reads the instruction. No file is kept open for the next: there are few places.
func (e *Entries) look(f *filemap.File, offset uint64) callsite.Entry {
	var tries []symbol.Try
	o, _ := e.symbols.find.binary(f, &tries)
	if o == nil {
		return callsite.UnknownEntry
	}
	defer o.close()
	code, err := o.image.Code(offset, min(offset, callsite.Longest))
	switch {
	case o.written():
		return callsite.UnknownEntry
	case err != nil:
		return callsite.NoEntry
	}
	return callsite.EntryOf(o.image.Machine, code)
}

// Close closes what is open.
func (e *Entries) Close() { e.symbols.Close() }
