package table

import (
	"os"
	"runtime"
	"testing"

	"ustack/filemap/symbol/image"
)

// TestGoSwitches: of all functions that go from one stack to another, runtime.mcall has
// no caller on the stack that it goes to, and runtime.rt0_go none at all.
func TestGoSwitches(t *testing.T) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	x, err := image.Open(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	g, err := OpenGo(x)
	if err != nil {
		t.Fatal(err)
	}
	switches, last := 0, 0
	for i := range g.n {
		addr := g.start + uint64(g.entry(i))
		p, has, _ := g.Find(addr)
		fn := runtime.FuncForPC(uintptr(addr))
		if !has || !p.Switches || fn == nil {
			continue
		}
		switches++
		if p.Top {
			last++
		}
		if want := fn.Name() == "runtime.mcall" || fn.Name() == "runtime.rt0_go"; want != p.Top {
			t.Errorf("%s is the last of its stack: %v", fn.Name(), p.Top)
		}
	}
	if last != 2 || switches < 5 {
		t.Errorf("%d of %d functions that go to another stack are the last of it", last, switches)
	}
}
