package render

import (
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/symbol"
)

// fixedNames are names by offset; those of return addresses have "return" in
// their source file.
type fixedNames map[uint64]*symbol.Name

func (m fixedNames) Name(_ *filemap.File, offset uint64, ran bool) *symbol.Name {
	if !ran {
		offset |= 1 << 60
	}
	if n := m[offset]; n != nil {
		return n
	}
	return &symbol.Name{Reason: symbol.Stripped}
}

// Skipped has functions by the offset of the inner frame.
func (m fixedNames) Skipped(inner, outer symbol.Place) *symbol.Skipped {
	if n := m[inner.Offset|skipped]; n != nil {
		return &symbol.Skipped{File: outer.File, Offset: n.Offset, Name: n}
	}
	return nil
}

const (
	returns = 1 << 60
	skipped = 1 << 61
)

// specimenNames are names of all kinds, including those of hostile files.
func specimenNames() fixedNames {
	found, _ := elfid.New([]byte{0xc2, 0xe0})
	return fixedNames{
		0x10:           {Function: "work", Offset: 0x1c, Source: symbol.Symtab},
		returns | 0x20: {Function: "work", Offset: 0x2c, File: "src/work.c", Line: 33, Source: symbol.DebugFile},
		returns | 0x30: {Function: "work", Offset: 0x3c, File: "work.c", Line: 40, Source: symbol.Symtab, Inlined: []symbol.Call{
			{Function: "leaf(int)", File: "leaf.h", Line: 7}, {Function: "", File: "mid.h"},
		}},
		returns | 0x40: {Reason: symbol.IDMismatch, Found: found},
		returns | 0x50: {Function: "a : path=/bin/true (unresolved: lost)", File: "x\ny.c", Line: 1, Source: symbol.Dynsym},
		returns | 0x70: {Function: "b", File: "/src (inferred)", Source: symbol.Dynsym},
		skipped | 0x20: {Function: "between (inferred) : path=/x", Offset: 0x99, Source: symbol.Symtab, Inferred: true},
	}
}

// TestSymbols has a stack with names in text and JSON. The text, replayed,
// stays as it is.
func TestSymbols(t *testing.T) {
	var in, want strings.Builder
	in.WriteString(title(7, "100.000002"))
	want.WriteString(title(7, "100.000002"))
	for _, f := range []struct{ number, name string }{
		{"10", "work+0x1c"},
		{"20", "work+0x2c src/work.c:33"},
		{"99", `between\040(inferred)\040: path=/x (inferred)`}, // which the kernel did not give
		{"30", "leaf(int) leaf.h:7 <- ?? mid.h <- work+0x3c work.c:40"},
		{"40", "(no symbol: id-mismatch, build ID of the file there c2e0)"},
		{"50", `a\040: path=/bin/true\040(unresolved: lost)+0x0 x\012y.c:1`},
		{"70", `b+0x0 /src\040(inferred)`},
		{"10", "(no symbol: stripped)"},
	} {
		addrText := " =>  <00000000000000" + f.number + ">"
		if f.number != "99" {
			in.WriteString(addrText + " : 0x1\n")
		}
		want.WriteString(addrText + " " + f.name + " : path=/lib/libz.so (x) build_id={" + zlibWords + "}\n")
	}
	in.WriteString(line("cat", 7, "100.000003", "file_map: hash=0x1 path=/lib/libz.so (x) build_id={"+zlibWords+"}"))
	opt := options{names: specimenNames()}
	got := replayed(t, opt, in.String())
	if got != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, want.String())
	}
	for what, opt := range map[string]options{"with names": opt, "without names": {}, "stitched": {names: specimenNames(), text: TextOptions{Stitch: true}}} {
		if again := replayed(t, opt, got); again != got {
			t.Errorf("replayed %s:\n%s\nwant\n%s", what, again, got)
		}
	}
}

func TestSymbolsJSON(t *testing.T) {
	in := title(7, "100.000002")
	for _, number := range []string{"10", "20", "30", "40", "50", "60"} {
		in += " =>  <00000000000000" + number + "> : 0x1\n"
	}
	in += line("cat", 7, "100.000003", "file_map: hash=0x1 path=/z build_id={"+noWords+"}")
	out := replayed(t, options{json: true, names: specimenNames()}, in)
	_ = jsonLines(t, out)
	for _, want := range []string{
		`{"offset":"0x10","path":"/z","trust":"announced","function":"work","function_offset":"0x1c","symbol_source":"symtab"}`,
		`{"offset":"0x20","path":"/z","trust":"announced","function":"work","function_offset":"0x2c","file":"src/work.c","line":33,"symbol_source":"debug-file"}`,
		`"symbol_source":"debug-file"},{"offset":"0x99","path":"/z","trust":"inferred","function":"between (inferred) : path=/x","symbol_source":"symtab","inferred":true},{"offset":"0x30",`,
		`{"offset":"0x30","path":"/z","trust":"announced","function":"work","function_offset":"0x3c","file":"work.c","line":40,` +
			`"inlined":[{"function":"leaf(int)","file":"leaf.h","line":7},{"function":"","file":"mid.h"}],"symbol_source":"symtab"}`,
		`{"offset":"0x40","path":"/z","trust":"announced","no_function":"id-mismatch","found_build_id":"c2e0"}`,
		`"function":"a : path=/bin/true (unresolved: lost)","function_offset":"0x0","file":"x\ny.c","line":1,"symbol_source":"dynsym"}`,
		`{"offset":"0x60","path":"/z","trust":"announced","no_function":"stripped"}`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestSymbolsUnwound: of a stack that ustack has unwound, no function is missing, and a
// frame that a signal has interrupted is no return address. That is so whatever form
// the frames have, and in a stack with the same frames that the kernel has unwound it
// is not.
func TestSymbolsUnwound(t *testing.T) {
	names := fixedNames{
		0x10: {Function: "handler"}, returns | 0x30: {Function: "caller"}, 0x20: {Function: "interrupted"},
		returns | 0x20: {Function: "before"}, skipped | 0x20: {Function: "missing", Inferred: true},
	}
	const (
		unwound = " unwound=registers,signal,cfi end=root"
		file    = " : path=/z build_id={" + noWords + "}"
	)
	stack := func(how, ending string) string {
		return line("cat", 7, "100.000002", "<user stack trace>"+how) +
			" =>  <0000000000000010>" + ending + "\n =>  <0000000000000020>" + ending + "\n =>  <0000000000000030>" + ending + "\n"
	}
	for form, ending := range map[string]string{"identifiers": " : 0x1", "files": file} {
		in := ""
		for range 4 { // which are remembered
			in += stack("", ending) + stack(unwound, ending)
		}
		in += line("cat", 7, "100.000003", "file_map: hash=0x1 path=/z build_id={"+noWords+"}")
		for format, words := range map[bool][3]string{false: {"> interrupted+", "> before+", "> missing"}, true: {`"interrupted"`, `"before"`, `"missing"`}} {
			out := replayed(t, options{json: format, names: names}, in)
			for _, word := range words {
				if n := strings.Count(out, word); n != 4 {
					t.Errorf("%s, JSON %v: %s is there %d times of 4:\n%s", form, format, word, n, out)
				}
			}
		}
	}
}
