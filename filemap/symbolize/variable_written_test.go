package symbolize

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestVariableWritten: no variable has a name of what a library was overwritten with after it was
// opened, though its size and time are what they were.
func TestVariableWritten(t *testing.T) {
	bin, lib := buildStatic(t, true, "-fPIE", "-pie")
	places, l, files := layoutOf(t, bin)
	right, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	id := trimmed(files[lib])
	other := bytes.ReplaceAll(right, []byte("lib_"), []byte("bad_"))
	other = bytes.ReplaceAll(other, id, make([]byte, len(id)))
	info, err := os.Stat(lib)
	if err != nil {
		t.Fatal(err)
	}
	s := newSymbols(t, Options{})
	named := func() (names []string) {
		for _, p := range places {
			if v := s.Variable(l, p.addr); v != nil {
				names = append(names, v.String())
			}
		}
		return names
	}
	for _, p := range places {
		if v := s.Variable(l, p.addr); strings.HasPrefix(p.want, "lib_") {
			if v == nil || v.String() != p.want {
				t.Fatalf("%v, want %s", v, p.want)
			}
			break // the others are not read yet
		}
	}
	if err := os.WriteFile(lib, other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(lib, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	for _, name := range named() {
		if strings.HasPrefix(name, "bad_") {
			t.Errorf("overwritten: %s", name)
		}
	}
	if err := os.WriteFile(lib, right, 0o700); err != nil {
		t.Fatal(err)
	}
}
