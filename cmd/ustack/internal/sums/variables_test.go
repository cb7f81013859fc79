//go:build !device && (amd64 || arm64)

package sums

import (
	"os"
	"testing"
	"unsafe"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/filemap/symbol"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// static is the variable of this test.
var static uint32 = 2

// names are variables that begin where a mapping of a file does.
type names struct{}

func (names) Variable(l filemap.Layout, addr uint64) *symbol.Variable {
	if a := l.At(addr); a != nil && a.File != nil {
		return &symbol.Variable{Name: "static", File: a.File}
	}
	return nil
}

func (names) Place(filemap.Layout, uint64) (*filemap.File, uint64, bool) { return nil, 0, false }

// TestVariables: a futex has a name only if its program was seen before and after its process
// was read.
func TestVariables(t *testing.T) {
	reader, err := procmap.NewReader(procmap.Options{IDs: procmap.NewIDs(nil)})
	if err != nil {
		t.Skip(err)
	}
	stat, err := reader.Stat(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	f := filesBy(t, reader)
	defer f.close()
	const tick = 1e9 / 100
	at := bpffutex.Futex{Addr: uint64(uintptr(unsafe.Pointer(&static))), Memory: 7, Born: stat.StartTime*tick - suspended(), TGID: int32(os.Getpid())}
	v := newVariables(names{}, f)
	check := func(what string, f bpffutex.Futex, want bool) {
		t.Helper()
		got, trust := v.variable(futexID(&f))
		if (got != nil) != want || want && trust != filemap.Late {
			t.Errorf("%s: %+v, %v", what, got, trust)
		}
	}
	check("nothing was seen", at, false)
	begun := space.Monotonic()
	v.seen(&at, begun)
	if l := v.layouts[programID{at.Memory, at.Born, at.TGID}]; l == nil || l.layout.At(at.Addr) == nil {
		t.Fatalf("the own process has no layout: %+v", l)
	} else if l.layout.At(at.Addr).File == nil {
		t.Skip("this program has no build ID")
	}
	check("seen before it was read", at, false)
	v.seen(&at, begun+1)
	check("seen again, before it was read", at, false)
	other := at
	other.Memory++ // it has executed another program
	v.seen(&other, space.Monotonic())
	check("another program", at, false)
	check("the other program", other, false)
	v.seen(&at, space.Monotonic())
	check("seen again", at, true)
	check("the other program, still", other, false)
	reused := at
	reused.Born += 10e9 // another process with this number
	v.seen(&reused, space.Monotonic())
	v.seen(&reused, space.Monotonic()+tracefs.Time(1e9))
	check("another process", reused, false)
	none := newVariables(nil, f)
	none.seen(&at, begun)
	none.seen(&at, space.Monotonic())
	if got, _ := none.variable(futexID(&at)); got != nil || len(none.layouts) > 0 {
		t.Error("named without names")
	}
	several := at
	several.Addr = futex.Several
	v.seen(&several, space.Monotonic())
	check("several futexes", several, false)
}
