//go:build linux

package timeline

import (
	"os"
	"slices"
	"testing"
	"unsafe"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/space"
	"ustack/tracefs"
)

var testedVariable [1 << 16]int64

// TestLayouts: a variable of this very process is found from when its code is known
// to be mapped, and only while the process runs this program.
func TestLayouts(t *testing.T) {
	reader := func(f procmap.Filter) *procmap.Reader {
		r, err := procmap.NewReader(procmap.Options{Stat: true, Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	self, spaces := os.Getpid(), space.New()
	var p procmap.Process
	if err := reader(procmap.Filter{Perms: procmap.Exec}).Process(self, &p); err != nil {
		t.Fatal(err)
	}
	began := space.Monotonic()
	if !spaces.Replace(&p, began) {
		t.Fatal("nothing is known")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	now := began + 1e6
	doubtful := false
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(),
		Doubtful: func(tracefs.Time) (tracefs.Time, tracefs.Time, bool) { return 0, space.Forever, doubtful }})
	ls := NewLayouts(j, LayoutOptions{Reader: reader(procmap.Filter{}), Clock: func() tracefs.Time { return now }, Settle: func() error { return nil }})
	addr := uint64(uintptr(unsafe.Pointer(&testedVariable[1<<15])))
	expect := func(what string, at tracefs.Time, addr uint64, want filemap.Trust) {
		t.Helper()
		l, trust := ls.Layout(self, at, addr)
		if l == nil {
			trust = filemap.NoTrust
		}
		if trust != want {
			t.Errorf("%s: %v, want %v", what, trust, want)
		}
		if a := l.Owner(addr); l != nil && (a == nil || a.File.Path != exe) {
			t.Errorf("%s: of %+v, not %s", what, a, exe)
		}
	}
	expect("a variable", now, addr, filemap.Verified)
	expect("before anything was known", began-1e6, addr, filemap.NoTrust)
	expect("no memory", now, 8, filemap.NoTrust)
	stays := func(what string, at tracefs.Time, l filemap.Layout, want proof.Stay) {
		t.Helper()
		if got := ls.Stays(self, at, l); got != want {
			t.Errorf("%s: it stays: %v, want %v", what, got, want)
		}
	}
	l, _ := ls.Layout(self, now, addr)
	moved := slices.Clone(l)
	for i := range moved {
		moved[i].Offset += 1 << 12
	}
	stays("a variable", now, l, proof.Stayed)
	stays("another place in the file", now, moved, proof.Gone)
	doubtful = true
	stays("a time of doubt", now, l, proof.Assumed)
	expect("a time of doubt", now, addr, filemap.NoTrust)
	doubtful = false
	spaces.Exit(self, now+1e6)
	expect("after its end", now, addr, filemap.Verified)
	j.opt.Late = true
	expect("found out by asking", now, addr, filemap.Late)
	j.opt.Late = false
	spaces.Exec(self, "other", now+2e6)
	now += 3e6
	expect("another program", now, addr, filemap.NoTrust)
	stays("another program, of which nothing is known", now, l, proof.Assumed)
	if l, _ = ls.Layout(self+1<<23, now, addr); l != nil {
		t.Error("an unknown process")
	}
}
