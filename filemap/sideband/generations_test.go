package sideband

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs/perf"
)

// TestGenerations: an inode that two files have had one after the other has no generation that
// shows which of them a mapping is of.
func TestGenerations(t *testing.T) {
	for _, c := range []struct {
		recorded []uint64
		number   uint32
		ok       bool
	}{{nil, 0, false}, {[]uint64{0}, 0, true}, {[]uint64{0, 7, 0, 7}, 7, true}, {[]uint64{7, 8, 7}, 7, false}} {
		r := new(Recorded)
		m := procmap.Mapping{Name: "/lib/x.so", Inode: 3, Dev: procmap.Dev{Major: 8}}
		for _, n := range c.recorded {
			r.generations.note(&m, &perf.Record{InodeGeneration: n})
		}
		if n, ok := r.Generation(&space.File{Name: m.Name, Inode: m.Inode, Dev: m.Dev}); n != c.number || ok != c.ok {
			t.Errorf("%v: %d, %v", c.recorded, n, ok)
		}
	}
}
