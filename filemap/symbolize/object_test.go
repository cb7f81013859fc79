package symbolize

import (
	"slices"
	"testing"

	"ustack/filemap/symbol"
)

// TestThinnedObject: functions whose symbols were stripped from an object file before it was
// linked do not have the name of the function before them that has no size. The symbols of the
// start files make the table look like a full one.
func TestThinnedObject(t *testing.T) {
	object := build(t, "gcc", "-O1", "-fno-toplevel-reorder", "-c", "testdata/src/thinned.c")
	full, bin := build(t, "gcc", object), object+".bin"
	tool(t, "strip", "-x", object)
	tool(t, "gcc", "-o", bin, object)
	list := nm(t, full)
	i := slices.IndexFunc(list, func(s nmSymbol) bool { return s.name == "hidden" })
	if i < 0 {
		t.Fatal("no function hidden")
	}
	at := list[i].addr // the segments of the program lie at their offsets
	check := func(what string) {
		t.Helper()
		if n := newSymbols(t, Options{}).Name(fileOf(t, bin), at, true); n.Function != "" || n.Reason != symbol.NoSymbol {
			t.Errorf("%s: hidden is %+v", what, n)
		}
	}
	check("the symbols are in the file")
	debug := bin + ".debug"
	tool(t, "objcopy", "--only-keep-debug", bin, debug)
	tool(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+debug, bin)
	check("the symbols are in the separate file")
}
