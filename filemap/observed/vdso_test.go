package observed

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// TestOtherVDSO: only a place in the vDSO of 64-bit programs has an offset, by which it gets
// its function. A dump says of which mapping that is not so.
func TestOtherVDSO(t *testing.T) {
	const at = 0x7f0000000000
	for kind, has := range map[procmap.Kind]bool{procmap.VDSO: true, procmap.Special: false} {
		m := procmap.Mapping{Name: "[vdso]", Kind: kind}
		line := "7f0000000000-7f0000002000 r-xp 00000000 00:00 0 [vdso]\n" + string(m.AppendOtherVDSO(nil))
		dump := read(2, "p", line) + read(3, "p", line)
		s := &resolve.Query{TID: 7, TGID: 7, Time: 2.5e9, Timed: true, Comm: []byte("p"),
			Frames:       []tracefs.Frame{{Form: tracefs.FormPlain, Addr: at + 0x10, HasAddr: true}},
			Attributions: []resolve.Attribution{resolve.Unnamed(filemap.NoAddressSpace)}}
		if got := landed(t, dump, s); got != "[vdso] vdso" || s.Attributions[0].HasOffset != has {
			t.Errorf("a mapping that is %v: %q, with an offset: %v", kind, got, s.Attributions[0].HasOffset)
		}
	}
}
