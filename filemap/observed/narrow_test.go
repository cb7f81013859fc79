package observed

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// TestNarrow: of the stack of a 32-bit program that an x86 kernel has walked as one of 64-bit
// words only the place where the thread was is one.
func TestNarrow(t *testing.T) {
	const (
		program = "08048000-08058000 r-xp 00000000 fe:00 11 /bin/one\n"
		vdso    = "f7fc0000-f7fc2000 r-xp 00000000 00:00 0 [vdso]\n"
		page    = "f7fbf000-f7fc0000 r-xp 00000000 00:00 0 [sigpage]\n"
		stack   = "fffdd000-ffffe000 rw-p 00000000 00:00 0 [stack]\n"
		wide    = "7f0000000000-7f0000002000 r-xp 00000000 00:00 0 [vdso]\n"
	)
	for _, test := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a 32-bit program", []string{program, vdso, stack}, "unreadable"},
		{"one of arm64", []string{program, page, vdso, stack}, "/bin/one+0x20 late"},
		{"a 64-bit program", []string{program, wide}, "/bin/one+0x20 late"},
	} {
		unknown := resolve.Unnamed(filemap.NoAddressSpace)
		s := &resolve.Query{TID: 7, TGID: 7, Time: 2.5e9, Timed: true, Comm: []byte("p"), Attributions: []resolve.Attribution{unknown, unknown}}
		for _, addr := range []uint64{0x8048010, 0x8048020} {
			s.Frames = append(s.Frames, tracefs.Frame{Form: tracefs.FormPlain, Addr: addr, HasAddr: true})
		}
		if first := landed(t, read(2, "p", test.lines...)+read(3, "p", test.lines...), s); first != "/bin/one+0x10 late" {
			t.Errorf("%s: where the thread was is %q", test.name, first)
		}
		if got := said(&s.Attributions[1]); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
