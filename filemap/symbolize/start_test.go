package symbolize

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// TestSkippedStart: the function that a thread began with is proven like one that
// is called by its name, in its own file. Without it, it is known only that it may
// be missing.
func TestSkippedStart(t *testing.T) {
	programName, libraryName := skippedPrograms(t)
	program, library := newSpecimen(t, programName), newSpecimen(t, libraryName)
	s := newSymbols(t, Options{})
	inside, outer := library.at("ip_inner", true), library.at("r_begins_thread", false)
	for _, c := range []struct {
		inner, outer symbol.Place
		want         bool
	}{
		{inside, outer, true},
		{library.at("r_calls_back", false), outer, true},
		{library.at("r_without_rbp", false), outer, false}, // rbp was used
		{inside, library.at("r_other_pointer", false), false},
		{inside, library.at("r_own_call", false), false},
		{inside, library.at("begins_thread", false), false},
		{inside, library.at("r_begins_thread", true), false},
		{inside, program.at("r_indirect", false), false},
		{inside, program.at("r_plain", false), false},
		{symbol.Place{}, outer, false},
		{inside, symbol.Place{File: outer.File}, false},
		{inside, symbol.Place{File: outer.File, Offset: 1 << 63}, false},
	} {
		got := s.Start(c.inner, c.outer)
		if (got != nil) != c.want || got != nil && (got.Head != 0x2e0 || got.Pointer != 0x638) {
			t.Errorf("%+v, %+v: %+v", c.inner, c.outer, got)
		}
		if s.Skipped(c.inner, outer) != nil {
			t.Errorf("%+v: inferred without the function", c.inner)
		}
	}
	call := func(inner, outer symbol.Place, f *filemap.File, offset uint64) string {
		outer.Calls = s.Begun(f, offset)
		found := s.Skipped(inner, outer)
		if found == nil {
			return ""
		}
		if found.File != f || found.Offset != offset || !found.Name.Inferred || found.Name.Line != 0 {
			t.Errorf("%s+%#x: %+v", f.Path, offset, found)
		}
		return found.Name.Function
	}
	for name, want := range map[string]bool{
		"plain": true, "by_jump": true, "no_plt": true, "ends_in_jump": true, "jump_table": true, "comes_back": true,
		"framed_end": false, "framed_far_end": false, "unknown_end": false, "frameless": false, "without_rbp": false, "by_pointer": false,
	} {
		at := program.labels[name]
		got := call(inside, outer, program.file, at)
		if want && got != name || !want && got != "" {
			t.Errorf("%s: %q", name, got)
		}
		for _, label := range []string{"r_other_pointer", "r_own_call"} {
			if got := call(inside, library.at(label, false), program.file, at); got != "" {
				t.Errorf("%s before %s: %q", name, label, got)
			}
		}
		if got := call(library.at("r_without_rbp", false), outer, program.file, at); got != "" {
			t.Errorf("%s, rbp was used: %q", name, got)
		}
		if got := call(inside, outer, program.file, at+1); got != "" {
			t.Errorf("%s, after its beginning: %q", name, got)
		}
	}
	other := *program.file
	other.BuildID[0]++
	for _, f := range []struct {
		file   *filemap.File
		offset uint64
	}{
		{&other, program.labels["plain"]},
		{program.file, 1 << 63},
		{program.file, 0},
		{library.file, library.labels["inner"]},
		{library.file, library.labels["wait_without_rbp"]},
	} {
		if got := call(inside, outer, f.file, f.offset); got != "" {
			t.Errorf("%s+%#x: %q", f.file.Path, f.offset, got)
		}
	}
	outer.Calls = 1 << 30
	if s.Skipped(inside, outer) != nil {
		t.Error("inferred with a number that is of no function")
	}
	off := newSymbols(t, Options{NoInfer: true})
	if off.Start(inside, outer) != nil {
		t.Error("looked for with NoInfer")
	}
}

// TestBegun: a function has one number, and there are so many only.
func TestBegun(t *testing.T) {
	s := newSymbols(t, Options{})
	f := &filemap.File{Path: "/a"}
	for i := range uint64(maxBegun) {
		if got, want := s.Begun(f, i), filemap.Begun(i+1); got != want {
			t.Fatalf("%d has the number %d", i, got)
		}
	}
	if first, more := s.Begun(f, 0), s.Begun(f, maxBegun); first != 1 || more != 0 {
		t.Errorf("%d, %d", first, more)
	}
}
