package symbolize

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"slices"
	"testing"

	"ustack/filemap/symbol"
	"ustack/tracefs/capturetest"
)

// library reads inlined functions with the standard library.
type library struct {
	t *testing.T
	d *dwarf.Data
}

// inlined are the functions inlined at an address, innermost first, with the
// lines where they are called.
func (l *library) inlined(addr uint64) []symbol.Call {
	r := l.d.Reader()
	unit, err := r.SeekPC(addr)
	if err != nil {
		return nil
	}
	var list []symbol.Call
	depth, inside := 0, false
	for {
		e, err := r.Next()
		if err != nil {
			l.t.Fatal(err)
		}
		if e == nil || e.Tag == dwarf.TagCompileUnit && e != unit {
			return list
		}
		if e.Tag == 0 {
			if depth--; depth < 0 {
				return list
			}
			continue
		}
		holds := l.holds(e, addr)
		switch e.Tag {
		case dwarf.TagSubprogram:
			if inside && holds {
				list = nil // a function within a function
			}
			inside = inside || holds
		case dwarf.TagInlinedSubroutine:
			if holds {
				line, _ := e.Val(dwarf.AttrCallLine).(int64)
				list = append([]symbol.Call{{Function: l.name(e), Line: int(line)}}, list...)
			}
		}
		skip := e.Tag == dwarf.TagInlinedSubroutine && !holds || e.Tag == dwarf.TagSubprogram && !holds && e.Val(dwarf.AttrLowpc) != nil
		switch {
		case !e.Children:
		case skip:
			r.SkipChildren()
		default:
			depth++
		}
	}
}

func (l *library) holds(e *dwarf.Entry, addr uint64) bool {
	ranges, err := l.d.Ranges(e)
	if err != nil {
		l.t.Fatal(err)
	}
	return slices.ContainsFunc(ranges, func(r [2]uint64) bool { return r[0] <= addr && addr < r[1] })
}

// name is the name of the function that an entry stands for.
func (l *library) name(e *dwarf.Entry) string {
	const attrLinkageName = dwarf.Attr(0x6e)
	plain := ""
	for e != nil {
		if s, ok := e.Val(attrLinkageName).(string); ok {
			return s
		}
		s, _ := e.Val(dwarf.AttrName).(string)
		plain = cmp.Or(plain, s)
		off, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			if off, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset); !ok {
				break
			}
		}
		r := l.d.Reader()
		r.Seek(off)
		var err error
		if e, err = r.Next(); err != nil {
			l.t.Fatal(err)
		}
	}
	return plain
}

// TestInlines holds inlined functions against the standard library, which
// also reads the ranges of DWARF 5 as LLVM and Go write them; addr2line of
// binutils 2.40 does not.
func TestInlines(t *testing.T) {
	capturetest.NeedLong(t)
	for _, p := range []struct {
		what string
		args []string
	}{
		{"C, DWARF 5", []string{"gcc", "-g", "-O2", "testdata/src/work.c"}},
		{"C, DWARF 3", []string{"gcc", "-gdwarf-3", "-gstrict-dwarf", "-O2", "testdata/src/work.c"}},
		{"Rust, DWARF 4", []string{"rustc", "-g", "-O", "-Cdwarf-version=4", "testdata/src/work.rs"}},
		{"Rust, DWARF 5", []string{"rustc", "-g", "-O", "-Cdwarf-version=5", "testdata/src/work.rs"}},
		{"Go", []string{"go", "build", "../../cmd/ustack/testdata/live/gowork/main.go"}},
	} {
		t.Run(p.what, func(t *testing.T) {
			name := buildAny(t, p.args)
			f, err := elf.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			d, err := f.DWARF()
			if err != nil {
				t.Fatal(err)
			}
			l := library{t, d}
			s, file := newSymbols(t, Options{}), fileOf(t, name)
			src := s.source(file)
			count := 0
			for _, spot := range spots(t, name, 100) {
				n := s.Name(file, spot.off, true)
				if n.Reason != symbol.NoReason {
					continue
				}
				want := l.inlined(spot.addr)
				count += len(want)
				same := slices.EqualFunc(n.Inlined, want, func(a, b symbol.Call) bool { return a.Function == src.pretty(b.Function) })
				for i := 1; same && i < len(want); i++ {
					same = n.Inlined[i].Line == want[i-1].Line
				}
				if !same || len(want) > 0 && n.Line != want[len(want)-1].Line {
					t.Errorf("%#x: %+v in %s:%d, but debug/dwarf says %+v", spot.addr, n.Inlined, n.Function, n.Line, want)
				}
			}
			if count == 0 {
				t.Error("nothing is inlined")
			}
			t.Logf("%d inlined functions", count)
		})
	}
}

// buildAny builds with a compiler that takes flags in front of -o, or with go.
func buildAny(t *testing.T, args []string) string {
	t.Helper()
	if args[0] != "go" {
		return build(t, args[0], args[1:]...)
	}
	out := t.TempDir() + "/program"
	tool(t, "go", "build", "-o", out, args[2])
	return out
}
