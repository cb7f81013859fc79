package tasks

import (
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// TestWatch: all that a process was found to have in the parts that an answer is about is told
// of, with the time since when it counts, and counts as it is after that.
func TestWatch(t *testing.T) {
	k := newKnown(space.New())
	type told struct {
		pid   int
		start uint64
		since tracefs.Time
	}
	seen := make(map[told]bool)
	k.Watch = func(pid int, m *procmap.Mapping, since tracefs.Time) {
		seen[told{pid, m.Start, since}] = true
		m.Name += ".told"
	}
	const size = 0x1000
	code := func(start uint64) procmap.Mapping {
		return procmap.Mapping{Start: start, End: start + size, Kind: procmap.File, Perms: procmap.Read | procmap.Exec, Name: "/file"}
	}
	m := &memory{pids: []int{7, 8}, answer: &answer{asked: 20, answered: 30,
		parts: []part{{span{0x1000, 0x2000}, 10}, {span{0x4000, 0x6000}, 15}},
		code:  []procmap.Mapping{code(0x1000), code(0x2000), code(0x5000)}}}
	if k.count(m, 30); len(seen) > 0 {
		t.Errorf("told before the answer counts: %v", seen)
	}
	k.count(m, 31)
	for _, pid := range m.pids {
		if !seen[told{pid, 0x1000, 10}] || !seen[told{pid, 0x5000, 15}] {
			t.Errorf("process %d: told %v", pid, seen)
		}
		if p, ok := k.spaces.Lookup(pid, 0x1000, 25); !ok || p.Mapping.File.Name == "/file" {
			t.Errorf("process %d has %+v, %v", pid, p, ok)
		}
	}
	if len(seen) != 2*len(m.pids) {
		t.Errorf("told %v", seen)
	}
}
