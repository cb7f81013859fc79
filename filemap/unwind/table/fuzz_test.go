package table

import (
	"testing"

	"ustack/filemap/symbol/image"
)

// FuzzFrames: call frame information without an index is read to its end, and
// every row holds what its types promise.
func FuzzFrames(f *testing.F) {
	cie := "\x14\x00\x00\x00\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x00\x0c\x07\x08\x90\x01\x00\x00\x00"
	fde := "\x1c\x00\x00\x00\x1c\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x44\x0e\x10\x0a\x0b\x2d\x00"
	f.Add([]byte(cie+fde), false, false)
	f.Add([]byte(cie+fde), true, true)
	f.Add([]byte("\x10\x00\x00\x00\xff\xff\xff\xff\x04\x00\x08\x00\x01\x78\x10\x0c\x07\x08\x90\x01"+
		"\x1c\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x0f\x02\x77\x08\x16\x03\x01\x30"), true, false)
	f.Fuzz(func(t *testing.T, section []byte, debug, arm bool) {
		x := &image.Image{Segments: []image.Segment{{Exec: true, MemSize: 1 << 40, FileSize: 1 << 40}}}
		table := &Table{machine: fuzzMachine(arm)}
		table.frames = frames{blocks: newBlocks(image.MemoryData(section)), debug: debug, machine: table.machine}
		l := table.frames.scan(x)
		table.index = l
		for i, e := range l.entries {
			if i > 64 {
				break
			}
			addr := l.base + uint64(e.start)
			rows := 0
			last := uint64(0)
			table.Rows(addr, func(a uint64, r *Rules) {
				if rows++; rows > maxRows+1 || rows > 1 && a <= last {
					t.Fatalf("%d rows, %#x after %#x", rows, a, last)
				}
				last = a
				checkRules(t, r)
			})
			for _, a := range [...]uint64{addr, addr + 1, addr + 100} {
				if r, _ := table.Find(a); r != nil {
					checkRules(t, r)
				}
				table.Span(a)
			}
		}
		if n := table.Memory(); n > 1<<20+8*len(section)*8 {
			t.Fatalf("%d bytes for a section of %d", n, len(section))
		}
	})
}

func fuzzMachine(arm bool) *machine {
	if arm {
		return machineOf(183)
	}
	return machineOf(62)
}

// checkRules checks what readers of Rules rely on.
func checkRules(t *testing.T, r *Rules) {
	t.Helper()
	for i, o := range append([]Rule{r.Base, r.Return}, r.Others...) {
		if o.Of >= Registers || o.Reg >= Registers || o.Kind > IsRegister {
			t.Fatalf("rule %d: %+v", i, r)
		}
		switch o.Kind {
		case AtExpression, IsExpression:
			if o.N < 0 || o.N >= int64(len(r.Expressions)) {
				t.Fatalf("rule %d has no expression: %+v", i, r)
			}
		case In:
			if o.N < 0 || o.N >= Registers {
				t.Fatalf("rule %d has no register: %+v", i, r)
			}
		}
	}
}

// FuzzSFrame: so does .sframe of all versions.
func FuzzSFrame(f *testing.F) {
	for version, arm := range []bool{false, true, false} {
		f.Add(simpleSection(version+1, arm, false), arm, uint64(0x200))
		f.Add(simpleSection(version+1, arm, true), arm, uint64(0x210))
	}
	f.Fuzz(func(t *testing.T, section []byte, arm bool, addr uint64) {
		table := &Table{Form: SFrame, machine: fuzzMachine(arm)}
		s, err := openSimple(image.MemoryData(section), 0x1000, table.machine)
		if err != nil {
			return
		}
		table.simple = s
		for i := range min(s.n, 64) {
			for _, a := range [...]uint64{addr, s.start(i), s.start(i) + 1, s.start(i) + 40} {
				if r, _ := table.Find(a); r != nil {
					checkRules(t, r)
				}
			}
		}
	})
}

// FuzzGo: the table of Go's runtime.
func FuzzGo(f *testing.F) {
	b := make([]byte, 200)
	copy(b, "\xf1\xff\xff\xff\x00\x00\x01\x08\x02")
	b[8+8*6], b[8+8*7] = 72, 80
	f.Add(b, uint64(0x1000))
	f.Fuzz(func(t *testing.T, section []byte, addr uint64) {
		g := &Go{data: newBlocks(image.MemoryData(section)), start: 0x1000, n: 3, funcs: 24, numbers: 8, quantum: 1, startsA: true}
		for _, a := range [...]uint64{addr, 0x1000, 0x1001, 0x1000 + uint64(g.entry(1))} {
			if p, has, ok := g.Find(a); ok && (!has || p.Frame >= maxGoFrame) {
				t.Fatalf("%#x: %+v", a, p)
			}
		}
	})
}
