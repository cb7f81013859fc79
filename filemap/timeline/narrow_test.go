package timeline

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
)

// TestNarrow: of the stack of a 32-bit program that an x86 kernel has walked as one of 64-bit
// words only the place where the thread was is one; the others can be arguments.
func TestNarrow(t *testing.T) {
	vdso := func(at uint64) *procmap.Mapping {
		m := memory("[vdso]", at, at+0x2000)
		m.Kind, m.Perms = procmap.VDSO, procmap.Read|procmap.Exec
		return m
	}
	page := memory("[sigpage]", 0xf7000000, 0xf7001000)
	page.Kind, page.Perms = procmap.Special, procmap.Read|procmap.Exec
	for _, test := range []struct {
		name  string
		given []*procmap.Mapping
		want  string
	}{
		{"a 32-bit program", []*procmap.Mapping{vdso(0xf7fc0000)}, "unreadable"},
		{"one of arm64, whose kernel walks 32-bit words", []*procmap.Mapping{vdso(0xf7fc0000), page}, "/bin/one+0x20 late"},
		{"a 64-bit program", []*procmap.Mapping{vdso(0x7f0000000000)}, "/bin/one+0x20 verified"},
	} {
		spaces := space.New()
		for _, m := range append(test.given, elf("/bin/one", 0x8048000, 0x8058000, 0)) {
			spaces.Map(1, m, 1000)
		}
		j := New(Options{Spaces: spaces, Threads: oneThread{}})
		s := stack(1, 5000, 0x8048010, 0x8048020)
		j.Attribute(s)
		if got := said(&s.Attributions[1]); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if first := &s.Attributions[0]; first.File == nil {
			t.Errorf("%s: where the thread was is %q", test.name, said(first))
		}
	}
}
