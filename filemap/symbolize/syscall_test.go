package symbolize

import (
	"testing"

	"ustack/filemap/symbol"
)

// TestSyscallLast: a thread after a system call that is a function's last instruction
// is at the first address of the next function, and is not said to be in that one.
func TestSyscallLast(t *testing.T) {
	for _, machine := range []string{"amd64", "arm64"} {
		p := newSpecimen(t, "testdata/syscall-last-"+machine+".elf")
		s := newSymbols(t, Options{Sysroot: "."})
		p.file.Path = "/" + p.file.Path
		next := p.at("next", true).Offset
		first := map[string]uint64{"amd64": 1, "arm64": 4}[machine] // the length of nop
		for _, c := range []struct {
			what   string
			offset uint64
			want   symbol.Name
		}{
			{"after the system call", next, symbol.Name{Reason: symbol.NoSymbol}},
			{"before it", next - map[string]uint64{"amd64": 2, "arm64": 4}[machine], symbol.Name{Function: "last"}},
			{"in the next function", next + first, symbol.Name{Function: "next"}},
			{"at the beginning of another one", p.at("_start", true).Offset, symbol.Name{Function: "_start"}},
		} {
			if n := s.Name(p.file, c.offset, true); n.Function != c.want.Function || n.Reason != c.want.Reason {
				t.Errorf("%s, %s: %+v", machine, c.what, n)
			}
		}
	}
}
