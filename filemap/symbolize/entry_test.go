package symbolize

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/callsite"
)

// TestEntries: a file shows by which instruction a call was entered. One that is another file, or is
// not there, shows nothing, and of too many places none is known.
func TestEntries(t *testing.T) {
	for _, machine := range []string{"amd64", "arm64"} {
		p := newSpecimen(t, "testdata/syscall-last-"+machine+".elf")
		p.file.Path = "/" + p.file.Path
		e, err := NewEntries(Options{Sysroot: "."})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		next := p.at("next", true).Offset
		for offset, want := range map[uint64]callsite.Entry{next: callsite.Own, next - 1: callsite.NoEntry, 1 << 40: callsite.NoEntry, 0: callsite.NoEntry} {
			if got := e.Entry(p.file, offset); got != want {
				t.Errorf("%s, %#x: %d, want %d", machine, offset, got, want)
			}
		}
		other, gone := *p.file, *p.file
		other.BuildID[3]++
		gone.Path += "x"
		for _, f := range []*filemap.File{&other, &gone} {
			if got := e.Entry(f, next); got != callsite.UnknownEntry {
				t.Errorf("%s: %+v shows %d", machine, f, got)
			}
		}
		for i := range uint64(maxLooks) {
			e.Entry(p.file, 1<<40+i)
		}
		if e.looked[p.file] != maxLooks || e.Entry(p.file, next+1<<30) != callsite.NoEntry || e.Here() {
			t.Errorf("%s: %d places of a file were looked at", machine, e.looked[p.file])
		}
	}
}
