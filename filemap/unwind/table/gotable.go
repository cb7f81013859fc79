package table

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"sort"

	"ustack/filemap/symbol/image"
)

// Go is the table of Go's runtime, .gopclntab of Go 1.18 and later (pcHeader and
// _func of runtime/symtab.go and runtime/runtime2.go). It knows how large the
// frame is at each instruction of Go's own code, in stripped programs too.
type Go struct {
	data    blocks
	start   uint64 // the address that functions are counted from
	n       uint64
	funcs   uint64 // offset of the list of functions
	names   uint64 // offset of the names of functions
	numbers uint64 // offset of the tables by instruction
	quantum uint64
	startsA bool // functions have startLine: since Go 1.20
}

// GoPlace is what holds at an instruction of Go's code.
type GoPlace struct {
	// Frame is how far the stack pointer has gone down since the function was
	// called.
	Frame uint64
	// Top: nothing has called the function (TOPFRAME), or it has come from another
	// stack and never returns (runtime.mcall). Switches: the function writes the stack
	// pointer, it goes from one stack to another (SPWRITE).
	Top, Switches bool
}

const (
	go118       = 0xfffffff0
	go120       = 0xfffffff1
	maxGo       = 1 << 22 // functions
	maxGoPlaces = 1 << 14 // steps of a function's table
	maxGoFrame  = 1 << 30
)

// OpenGo opens the table of Go's runtime.
func OpenGo(x *image.Image) (*Go, error) {
	s := x.Section(".gopclntab")
	if s == nil || !x.Has(s.Name) || machineOf(x.Machine) == nil || x.Order.Uint16([]byte{1, 0}) != 1 {
		return nil, ErrNone
	}
	d, err := x.Data(s)
	if err != nil {
		return nil, fmt.Errorf("reading .gopclntab: %w", err)
	}
	const size = 8 + 8*8
	h, err := d.Bytes(0, size)
	if err != nil {
		return nil, fmt.Errorf("reading .gopclntab: %w", err)
	}
	g := &Go{data: newBlocks(d), quantum: uint64(h[6])}
	magic := binary.LittleEndian.Uint32(h)
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(h[8+8*i:]) }
	if magic != go118 && magic != go120 || h[7] != 8 || g.quantum != 1 && g.quantum != 4 {
		return nil, ErrNone
	}
	g.startsA = magic == go120
	g.n, g.names, g.numbers, g.funcs = word(0), word(3), word(6), word(7)
	if g.n == 0 || g.n > maxGo || g.names > d.Size() || g.funcs > d.Size() || g.numbers > d.Size() || (g.n*2+1)*4 > d.Size()-g.funcs {
		return nil, fmt.Errorf("reading .gopclntab: %w", errDamaged)
	}
	if !g.place(x, word(2)) {
		return nil, ErrNone
	}
	return g, nil
}

// place finds the address that functions are counted from: older versions have
// it in the header, else it is the beginning of .text, if C code is not before.
func (g *Go) place(x *image.Image, header uint64) bool {
	g.start = header
	if header != 0 && g.fits(x) {
		return true
	}
	s := x.Section(".text")
	if s == nil {
		return false
	}
	g.start = s.Addr
	return g.fits(x)
}

// fits reports whether functions begin as Go's do where the table says so: with
// the comparison of the stack pointer with the goroutine's limit.
func (g *Go) fits(x *image.Image) bool {
	const samples, few = 256, 8
	check := "\x49\x3b\x66\x10" // cmp 16(%r14), %rsp
	if x.Machine == elf.EM_AARCH64 {
		check = "\x90\x0b\x40\xf9" // ldr x16, [x28, #16]
	}
	tried, good := 0, 0
	for i := uint64(0); i < g.n; i += max(g.n/samples, 1) {
		code, err := x.CodeAt(g.start+uint64(g.entry(i)), uint64(len(check)))
		tried++
		if err == nil && string(code) == check {
			good++
		}
	}
	return good >= few && good*4 >= tried
}

// entry returns where function i begins.
func (g *Go) entry(i uint64) uint32 {
	b := g.data.bytes(g.funcs+i*8, 4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// Memory returns about how many bytes are kept.
func (g *Go) Memory() int { return 256 + g.data.memory() }

// Find returns what holds at an address. has is false if it is no code of Go's;
// ok is false if the table is malformed there.
func (g *Go) Find(addr uint64) (p GoPlace, has, ok bool) {
	if addr < g.start || addr-g.start >= uint64(g.entry(g.n)) {
		return p, false, false
	}
	at := addr - g.start
	i := sort.Search(int(g.n), func(i int) bool { return uint64(g.entry(uint64(i))) > at })
	if i == 0 {
		return p, false, false
	}
	where := g.data.bytes(g.funcs+uint64(i-1)*8+4, 4)
	if where == nil {
		return p, true, false
	}
	size := uint64(44)
	if !g.startsA {
		size = 40
	}
	f := g.data.bytes(g.funcs+uint64(binary.LittleEndian.Uint32(where)), size)
	if f == nil || uint64(binary.LittleEndian.Uint32(f)) != uint64(g.entry(uint64(i-1))) {
		return p, true, false
	}
	flag := f[size-3]
	p.Top, p.Switches = flag&1 != 0, flag&2 != 0
	if p.Switches && g.named(binary.LittleEndian.Uint32(f[4:]), "runtime.mcall\x00") {
		p.Top = true // the scheduler, on the thread's own stack: no frame of it is above
	}
	p.Frame, ok = g.frame(g.numbers+uint64(binary.LittleEndian.Uint32(f[16:])), at-uint64(g.entry(uint64(i-1))))
	return p, true, ok
}

// named reports whether a name is at an offset.
func (g *Go) named(off uint32, name string) bool {
	return string(g.data.bytes(g.names+uint64(off), uint64(len(name)))) == name
}

// frame runs the table of a function's frame size: pairs of differences, of the
// size (zigzag) and of the address.
func (g *Go) frame(off, at uint64) (uint64, bool) {
	if off == g.numbers {
		return 0, false // it has none
	}
	end := g.data.size()
	if off >= end {
		return 0, false
	}
	r := reader{b: g.data.bytes(off, min(maxEntry, end-off))}
	value, pc := int64(-1), uint64(0)
	for n := range maxGoPlaces {
		delta := r.uleb()
		if r.bad || delta == 0 && n > 0 {
			return 0, false
		}
		value += int64(delta>>1) ^ -int64(delta&1)
		pc += r.uleb() * g.quantum
		if r.bad {
			return 0, false
		}
		if at < pc {
			return uint64(value), value >= 0 && value < maxGoFrame
		}
	}
	return 0, false
}
