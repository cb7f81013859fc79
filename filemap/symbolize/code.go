package symbolize

import (
	"debug/elf"
	"slices"
	"strings"

	"ustack/filemap/callsite"
	"ustack/filemap/symbol/cfi"
	"ustack/filemap/symbol/image"
)

// Bounds on the code of a file that is looked at.
const (
	maxFunction  = 64 << 10 // bytes of a function
	maxFunctions = 4096     // that are kept
)

// code is the machine code of a file: its functions, and where they lead.
type code struct {
	image   *image.Image
	regs    cfi.Registers
	table   *cfi.Table
	known   map[uint64]*function // by address
	slots   map[uint64]string
	exports map[string][]uint64
	size    int // about how many bytes are kept beside the table
}

// function is a function, or a part of one, taken apart.
type function struct {
	*cfi.Function
	steps []callsite.Step
	sets  bool // arm64: it makes x29 a frame pointer
}

// holds reports whether an address is in the function.
func (f *function) holds(addr uint64) bool { return addr >= f.Start && addr < f.End }

// newCode opens the code of a file, nil without usable call frame information.
func newCode(x *image.Image) *code {
	table, err := cfi.Open(x)
	if err != nil {
		return nil
	}
	c := &code{image: x, table: table, known: make(map[uint64]*function)}
	c.regs, _ = cfi.RegistersOf(x.Machine)
	return c
}

// function returns the function at an address, nil if it cannot be taken apart.
// It is the same one at all of its addresses.
func (c *code) function(addr uint64) *function {
	if f, ok := c.known[addr]; ok {
		return f
	}
	if len(c.known) >= maxFunctions {
		clear(c.known)
		c.size = 0
	}
	const each = 64
	c.size += each
	info := c.table.Find(addr)
	if info == nil {
		c.known[addr] = nil
		return nil
	}
	f, ok := c.known[info.Start]
	if !ok {
		if f = c.read(info); f != nil {
			c.size += each + 48*len(f.Rows) + 40*len(f.steps)
		}
		c.known[info.Start] = f
	}
	c.known[addr] = f
	return f
}

// read takes a function apart.
func (c *code) read(info *cfi.Function) *function {
	if info.End-info.Start > maxFunction || stub(c.image.InCode(info.Start)) {
		return nil
	}
	text, err := c.image.CodeAt(info.Start, info.End-info.Start)
	if err != nil {
		return nil
	}
	f := &function{Function: info}
	if !callsite.Flow(c.image.Machine, text, info.Start, func(s callsite.Step) { f.steps = append(f.steps, s) }) {
		return nil
	}
	f.sets = c.image.Machine == elf.EM_AARCH64 && callsite.SetsFrame(text)
	return f
}

// call returns the address of the last byte of the call before a return
// address.
func (c *code) call(offset uint64) (addr uint64, ok bool) {
	if offset == 0 || offset >= 1<<62 {
		return 0, false
	}
	return c.image.Address(offset - 1)
}

// afterSyscall reports whether a system call is before an offset.
func (c *code) afterSyscall(offset uint64) bool {
	text, err := c.image.Code(offset, min(offset, callsite.Longest))
	return err == nil && callsite.Syscall(c.image.Machine, text)
}

// start returns the call before a return address, if it calls the function that
// a thread begins with.
func (c *code) start(offset uint64) (callsite.Start, bool) {
	at, ok := c.call(offset)
	if !ok || c.image.Machine != elf.EM_X86_64 {
		return callsite.Start{}, false
	}
	f := c.function(at)
	byPointer := func(s callsite.Step) bool { return s.Kind == callsite.CallIndirect && s.End() == at+1 }
	if f == nil || !slices.ContainsFunc(f.steps, byPointer) {
		return callsite.Start{}, false
	}
	text, err := c.image.CodeAt(f.Start, f.End-f.Start)
	if err != nil {
		return callsite.Start{}, false
	}
	return callsite.StartCall(text, f.Start, at+1, func(addr uint64) (int64, bool) {
		r := f.At(addr)
		return r.Offset, r.Base == c.regs.Stack
	})
}

// stub reports whether a section holds linkers' stubs, or is no code.
func stub(s *image.Section) bool {
	return s == nil || strings.HasPrefix(s.Name, ".plt") || s.Name == ".iplt"
}

// end returns where a call or jump leads to: an address in this file, or a name
// that the dynamic linker looks up. Both are zero if unknown.
func (c *code) end(s callsite.Step) (addr uint64, name string) {
	if s.Slot {
		return 0, c.slot(s.Target)
	}
	if s.Kind != callsite.Call && s.Kind != callsite.Jump {
		return 0, ""
	}
	in := c.image.InCode(s.Target)
	if !stub(in) {
		return s.Target, ""
	}
	if in == nil {
		return 0, ""
	}
	text, err := c.image.CodeAt(s.Target, callsite.StubSize)
	if err != nil {
		return 0, ""
	}
	if slot, ok := callsite.Stub(c.image.Machine, text, s.Target); ok {
		return 0, c.slot(slot)
	}
	return 0, ""
}

// slot returns the name of the target of a pointer of the dynamic linker's.
func (c *code) slot(addr uint64) string {
	if c.slots == nil {
		var err error
		if c.slots, err = c.image.Slots(); err != nil {
			c.slots = make(map[uint64]string) // then they are unknown
		}
		c.size += 64 * len(c.slots)
	}
	return c.slots[addr]
}

// exported returns the addresses of a function that other files can call.
func (c *code) exported(name string) []uint64 {
	if c.exports == nil {
		var err error
		if c.exports, err = c.image.Exports(); err != nil {
			c.exports = make(map[string][]uint64)
		}
		c.size += 96 * len(c.exports)
	}
	return c.exports[name]
}

// intact reports whether the frame pointer is a caller's at a place: the
// function has neither set up a frame nor used the register for anything else,
// or has given it back.
func (c *code) intact(f *function, r *cfi.Row) bool {
	return r.Base == c.regs.Stack && (r.Frame.Where == cfi.Same || c.popped(f, r))
}

// popped reports whether the frame pointer was taken off the stack again before
// a place. GCC does not describe it: the rule still names the place in the stack,
// which is below the stack pointer by then. It was above, or it never was pushed,
// and lies in the red zone.
func (c *code) popped(f *function, r *cfi.Row) bool {
	below := func(r *cfi.Row) bool {
		return r.Frame.Where == cfi.Saved && r.Base == c.regs.Stack && r.Offset+r.Frame.Offset < 0
	}
	if !below(r) {
		return false
	}
	for i := range f.Rows {
		if o := &f.Rows[i]; o.Frame == r.Frame && !below(o) {
			return true
		}
	}
	return false
}

// fresh reports whether a place is like the entry of a function: nothing is on
// the stack but the return address, if calls put it there.
func (c *code) fresh(f *function, r *cfi.Row) bool {
	entry, returns := int64(8), cfi.Rule{Where: cfi.Saved, Offset: -8}
	if c.image.Machine == elf.EM_AARCH64 {
		entry, returns = 0, cfi.Rule{}
	}
	return c.intact(f, r) && r.Offset == entry && r.Return == returns
}

// framed reports whether the frame pointer points to the function's own frame
// at a place: the caller's frame pointer, and the return address after it.
func (c *code) framed(f *function, r *cfi.Row) bool {
	saved := r.Frame.Where == cfi.Saved && r.Return == cfi.Rule{Where: cfi.Saved, Offset: r.Frame.Offset + 8}
	if c.image.Machine == elf.EM_AARCH64 {
		return saved && f.sets
	}
	return saved && r.Base == c.regs.Frame && r.Offset == 16 && r.Frame.Offset == -16
}

// frames reports whether a function may have a frame anywhere.
func (c *code) frames(f *function) bool {
	for i := range f.Rows {
		r := &f.Rows[i]
		if r.Base != c.regs.Stack || c.image.Machine == elf.EM_AARCH64 && r.Frame.Where != cfi.Same {
			return true
		}
	}
	return false
}
