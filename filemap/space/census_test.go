package space

import (
	"fmt"
	"strings"
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// TestBudget: whatever processes map, the history takes no more than it may. What
// is forgotten is counted, is not said to be anything, and does not come back.
func TestBudget(t *testing.T) {
	capturetest.SkipShort(t)
	limit, part := int64(4<<20), 1
	if capturetest.Brief() {
		limit, part = limit/4, 4
	}
	for name, attack := range map[string]func(s *Spaces){
		"many changes": func(s *Spaces) {
			for i := range 30000 / part {
				m := mapping(uint64(i%5000)<<12, uint64(i%5000+1)<<12, 0, "/a")
				s.MapExact(1, &m, tracefs.Time(2*i))
				s.Unmap(1, uint64(i*7%5000)<<12, uint64(i*7%5000+1)<<12, tracefs.Time(2*i+1))
			}
		},
		"many mappings": func(s *Spaces) {
			for i := range 100000 / part {
				m := mapping(uint64(i)<<12, uint64(i+1)<<12, 0, "/a")
				s.MapExact(1, &m, tracefs.Time(i))
			}
		},
		"many processes": func(s *Spaces) {
			for pid := range 300 / part {
				for i := range 500 {
					m := mapping(uint64(i)<<12, uint64(i+1)<<12, 0, "/a")
					s.MapExact(pid, &m, tracefs.Time(i))
				}
			}
		},
		"long names": func(s *Spaces) {
			for i := range 5000 / part {
				m := mapping(uint64(i)<<12, uint64(i+1)<<12, 0, fmt.Sprint("/", i, strings.Repeat("x", 4000)))
				s.MapExact(i%40, &m, tracefs.Time(i))
			}
		},
		"readings": func(s *Spaces) {
			var ms []procmap.Mapping
			for i := range 60000 / part {
				ms = append(ms, mapping(uint64(i)<<12, uint64(i+1)<<12, 0, "/a"))
			}
			for i := range 20 {
				s.Replace(process(1, 5, "x", ms...), tracefs.Time(1000*i))
			}
		},
	} {
		before := heap()
		s := New()
		s.budget.limit = limit
		innocent := mapping(0x1000, 0x2000, 0, "/innocent")
		s.MapExact(9999, &innocent, 1)
		attack(s)
		s.census()
		used := heap() - before
		list, sum := s.count(nil)
		if sum > limit || used > 2*limit {
			t.Errorf("%s: %d bytes counted, %d used, of %d", name, sum, used, limit)
		}
		if got := s.Forgotten(); got.Changes+got.Processes == 0 {
			t.Errorf("%s: %d bytes in %d spaces, and nothing forgotten", name, sum, len(list))
		}
		if got := where(s, 9999, 0x1000, 1<<40); got != "/innocent+0x0" {
			t.Errorf("%s: of a process that does not take much is known %q", name, got)
		}
		t.Logf("%s: %d bytes counted, %d used, forgotten %+v", name, sum, used, s.Forgotten())
	}
}

// TestForgotten: a process that is not followed any more is followed again when it
// executes a program.
func TestForgotten(t *testing.T) {
	s := New()
	a := mapping(0x1000, 0x2000, 0, "/a")
	s.MapExact(1, &a, 10)
	s.update(1, func(old *Space) *Space { return old.withoutAll(&s.budget) })
	s.MapExact(1, &a, 20)
	s.Replace(process(1, 5, "x", a), 30)
	s.ReplaceUnder(process(1, 5, "x", a), 40, 0)
	s.Fork(1, 2, 50)
	check(t, s, 1, []lookup{{0x1000, 15, ""}, {0x1000, 25, ""}, {0x1000, 45, ""}})
	check(t, s, 2, []lookup{{0x1000, 55, ""}})
	if v := s.Space(1).At(45); v == nil || !v.Partial {
		t.Errorf("%+v", v)
	}
	s.Exec(1, "y", 60)
	s.MapExact(1, &a, 61)
	check(t, s, 1, []lookup{{0x1000, 65, "/a+0x0"}})
}
