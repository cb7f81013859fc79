package procmap

import (
	"strings"
	"testing"
)

// TestLongLine: a name that is longer than a line can be is left out: a part of it would
// be another file's.
func TestLongLine(t *testing.T) {
	const columns = "00401000-00402000 r-xp 00001000 fe:00 12                         "
	r := &Reader{text: []byte(columns + "/" + strings.Repeat("x", maxLine))}
	skip, read := false, Mapping{}
	if have := r.longLine(len(r.text), &skip, func(m *Mapping) bool { read = *m; return true }); have != 0 || !skip {
		t.Errorf("%d bytes are kept, skip %v", have, skip)
	}
	if read.Start != 0x401000 || read.Inode != 12 || read.Kind != File || read.Name != "" {
		t.Errorf("%v at %#x, inode %d, a name of %d bytes", read.Kind, read.Start, read.Inode, len(read.Name))
	}
}
