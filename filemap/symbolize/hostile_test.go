package symbolize

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
)

// TestDamaged: a file with wrong bytes has names or reasons, but brings nothing
// down. It has its right build ID still.
func TestDamaged(t *testing.T) {
	full := build(t, "gcc", "-g", "-O2", "testdata/src/work.c")
	whole, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	id := fileOf(t, full).BuildID
	list := spots(t, full, 20)
	random := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	name := filepath.Join(dir, "program")
	reasons := make(map[symbol.Reason]int)
	for range 400 {
		b := append([]byte(nil), whole...)
		for range 1 + random.IntN(64) {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		if random.IntN(4) == 0 { // the tables of sections and segments
			for range 8 {
				b[len(b)-1-random.IntN(30*64)] = byte(random.Uint32())
				b[random.IntN(64+13*56)] = byte(random.Uint32())
			}
		}
		if err := os.WriteFile(name, b, 0o777); err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Sysroot: dir})
		if err != nil {
			t.Fatal(err)
		}
		f := &filemap.File{Path: "/program", BuildID: id}
		for _, spot := range list {
			n := s.Name(f, spot.off, true)
			reasons[n.Reason]++
			if (n.Function == "") != (n.Reason != symbol.NoReason) || (n.Source == symbol.NoSource) != (n.Reason != symbol.NoReason) {
				t.Fatalf("neither a name nor a reason, or both: %+v", n)
			}
		}
		s.Close()
	}
	t.Logf("reasons: %v", reasons)
	if reasons[symbol.NoReason] == 0 || len(reasons) < 3 {
		t.Error("the damage is too little, or too much, to be a test")
	}
}
