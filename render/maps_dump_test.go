package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
)

// TestMapsDumpOneNumber: two files with one device and inode number, as overlayfs has
// them once a file was written, get no build ID: that of one would be read for both.
func TestMapsDumpOneNumber(t *testing.T) {
	id, _ := elfid.New([]byte("new one!"))
	mapping := func(start, inode uint64, id elfid.ID) procmap.Mapping {
		return procmap.Mapping{Start: start, End: start + 0x1000, Inode: inode, Perms: procmap.Exec, Name: "/lib.so", BuildID: id}
	}
	for _, c := range []struct {
		first, second, third elfid.ID
		lines                int
	}{{id, id, id, 2}, {elfid.ID{}, id, id, 1}, {id, elfid.ID{}, id, 1}, {elfid.ID{}, elfid.ID{}, elfid.ID{}, 1}} {
		var out bytes.Buffer
		d := NewMapsDump(&out, time.Unix(0, 0))
		err := d.Process(procmap.Head{PID: 7}, []procmap.Mapping{
			mapping(0x1000, 5, c.first), mapping(0x3000, 5, c.second), mapping(0x5000, 5, c.third), mapping(0x7000, 6, id),
		})
		if err == nil {
			err = d.Close()
		}
		if n := strings.Count(out.String(), "build_id="); err != nil || n != c.lines {
			t.Errorf("%+v: %d build IDs, want %d, %v:\n%s", c, n, c.lines, err, out.String())
		}
	}
}

// TestMapsDumpVDSO: a dump says which vDSO is not the one of 64-bit programs.
func TestMapsDumpVDSO(t *testing.T) {
	for kind, want := range map[procmap.Kind]int{procmap.VDSO: 0, procmap.Special: 1} {
		m := []procmap.Mapping{{Start: 0x1000, End: 0x3000, Name: "[vdso]", Kind: kind}, {Start: 0x3000, End: 0x4000, Name: "[vvar]", Kind: procmap.Special}}
		lines := bytes.Split(AppendMapsVersion(nil, procmap.Head{PID: 7}, m), []byte("\n"))
		if n := len(lines) - 4; n != want || want == 1 && !procmap.IsOtherVDSO(lines[2]) {
			t.Errorf("%v: %d more lines, want %d: %s", kind, n, want, lines)
		}
	}
}
