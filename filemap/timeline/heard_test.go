package timeline

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// TestAttributeHeard: what the kernel announced because of a stack holds as long as its
// process keeps all that it has mapped, also where its mappings are unknown.
func TestAttributeHeard(t *testing.T) {
	one := &filemap.File{Path: "/lib/one", HasID: true, BuildID: testID}
	two := &filemap.File{Path: "/lib/two", HasID: true, BuildID: testID}
	const keeps, loses = 1, 2 // processes; the latter unmaps something at 20 µs
	kept := func(pid int, from, to tracefs.Time, _ bool) bool {
		return from >= 4000 && (pid == keeps || pid == loses && (to < 20_000 || from >= 20_000))
	}
	for _, test := range []struct {
		name         string
		announced    []hearing // because of stacks of threads of these numbers
		tid          int32
		time         tracefs.Time
		offset, hash uint64
		later        tracefs.Time
		want         string
	}{
		{"kept", []hearing{{pid: keeps, at: 5000, file: one}}, keeps, 30_000, 0x1234, 1, 0, "/lib/one+0x0 late"},
		{"of another process", []hearing{{pid: keeps, at: 5000, file: one}}, 3, 30_000, 0x1234, 1, 20_000, "no-address-space"},
		{"another identifier", []hearing{{pid: keeps, at: 5000, file: one}}, keeps, 30_000, 0x1234, 2, 0, "no-address-space"},
		{"asked for when it was unknown", []hearing{{pid: keeps, at: 3000, file: one}}, keeps, 30_000, 0x1234, 1, 0, "no-address-space"},
		{"later than the frame", []hearing{{pid: keeps, at: 40_000, file: one}}, keeps, 30_000, 0x1234, 1, 0, "no-address-space"},
		{"before it was unmapped", []hearing{{pid: loses, at: 5000, file: one}}, loses, 15_000, 0x1234, 1, 0, "/lib/one+0x0 late"},
		{"unmapped", []hearing{{pid: loses, at: 5000, file: one}}, loses, 30_000, 0x1234, 1, 0, "no-address-space"},
		{"unmapped, and it is another file", []hearing{{pid: loses, at: 5000, file: one}, {pid: loses, at: 25_000, file: two}}, loses, 30_000, 0x1234, 1, 0, "/lib/two+0x0 late"},
		{"data", []hearing{{pid: keeps, at: 5000, file: one}}, keeps, 30_000, 0x41234, 1, 0, "not-code"},
		{"no code of what is known has it", []hearing{{pid: keeps, at: 5000, file: one}}, 4, 30_000, 0x41234, 1, 0, "contradicted"},
	} {
		spaces := space.New()
		for pid := range 4 {
			spaces.Fork(9, pid, 500)
			spaces.Unknown(pid, 0, ^uint64(0), 500)
		}
		spaces.Map(4, elf("/lib/three", 0x100000, 0x120000, 0x1000), 1000)
		spaces.Map(5, elf("/lib/one", 0x100000, 0x120000, 0x1000), 1000) // where its code is
		j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Late: true, Kept: kept})
		for _, x := range test.announced {
			s := owning(claimed(x.at+1000, 1, 0x1234, x.file))
			s.TID, s.Asked = int32(x.pid), x.at+500
			j.Attribute(s)
			if test.later > 0 { // the thread asks for another stack
				j.Attribute(&resolve.Query{TID: s.TID, Time: test.later + 500, Timed: true, Asked: test.later})
			}
		}
		s := claimed(test.time, test.hash, test.offset, two)
		s.TID, s.Asked = test.tid, test.time-200
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
