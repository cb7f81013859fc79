package space

import (
	"fmt"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// longHistory is a process that executes a program every 100 ns, which takes
// 10 ns to load and maps a library later.
func longHistory(programs int) *Spaces {
	s := New()
	for i := range programs {
		t := tracefs.Time(i * 100)
		s.Exec(1, fmt.Sprint(i), t)
		s.Loading(1, t)
		m := mapping(0x1000, 0x2000, 0, fmt.Sprint("/program", i%7))
		s.MapExact(1, &m, t+5)
		s.Loaded(1, t+10)
		l := mapping(0x8000, 0x9000, 0, fmt.Sprint("/library", i%5))
		s.MapExact(1, &l, t+50)
		s.Unmap(1, 0x8000, 0x9000, t+80)
	}
	return s
}

// TestBeganForgotten: when a program began is known after what it had then was forgotten.
func TestBeganForgotten(t *testing.T) {
	for what, forget := range map[string]func(s *Spaces){
		"by age":    func(s *Spaces) { s.Expire(350) },
		"by number": func(s *Spaces) { s.shard(1).replace(s.shard(1).load(), 1, s.Space(1).bounded(chunk)) },
	} {
		s := New()
		s.Exec(1, "a", 10)
		m := mapping(0x1000, 0x2000, 0, "/a")
		s.MapExact(1, &m, 11)
		for at := tracefs.Time(100); at < 1000; at++ { // so that there are many versions
			l := mapping(0x8000, 0x9000, 0, "/library")
			s.MapExact(1, &l, at)
			s.Unmap(1, 0x8000, 0x9000, at)
		}
		had := len(s.Space(1).Versions())
		if forget(s); len(s.Space(1).Versions()) >= had {
			t.Fatalf("%s: nothing was forgotten of %d versions", what, had)
		}
		for _, at := range []tracefs.Time{999, 2000} {
			if began, exactly := s.Space(1).BeganExactly(at); began != 10 || !exactly {
				t.Errorf("%s: at %d it began at %d, exactly %t", what, at, began, exactly)
			}
		}
		s.Exec(1, "b", 3000)
		if began, exactly := s.Space(1).BeganExactly(3001); began != 3000 || !exactly {
			t.Errorf("%s: another one began at %d, exactly %t", what, began, exactly)
		}
	}
}

// TestLongHistory: the mappings of a process long ago are known as well as those of
// now, however often they have changed since.
func TestLongHistory(t *testing.T) {
	const programs = 3000
	s := longHistory(programs)
	sp := s.Space(1)
	versions := sp.Versions()
	if len(versions) != 2*programs {
		t.Errorf("%d versions", len(versions))
	}
	for i := 1; i < len(versions); i++ {
		if versions[i-1].To != versions[i].From {
			t.Fatalf("versions are not one after the other: %+v", versions[i-1:i+1])
		}
	}
	for i := range programs {
		at := tracefs.Time(i * 100)
		program, library := fmt.Sprintf("/program%d+0x0", i%7), fmt.Sprintf("/library%d+0x0", i%5)
		for _, c := range []struct {
			addr  uint64
			after tracefs.Time
			want  string
		}{{0x1000, 4, ""}, {0x1000, 5, program}, {0x1000, 99, program}, {0x8000, 49, ""}, {0x8000, 50, library}, {0x8000, 79, library}, {0x8000, 80, ""}} {
			if got := where(s, 1, c.addr, at+c.after); got != c.want {
				t.Fatalf("program %d: %#x after %d is %q, want %q", i, c.addr, c.after, got, c.want)
			}
		}
		if v := sp.At(at + 90); v == nil || v.Comm != fmt.Sprint(i) {
			t.Fatalf("program %d: %+v", i, v)
		}
		if began, exactly := sp.BeganExactly(at + 90); began != at || !exactly {
			t.Fatalf("program %d began at %d, exactly %v", i, began, exactly)
		}
		if !sp.Loading(at+9, at+10) || sp.Loading(at+10, at+100) {
			t.Fatalf("program %d: loading %v, then %v", i, sp.Loading(at+9, at+10), sp.Loading(at+10, at+100))
		}
	}
}

// TestLongHistoryExpired: it can be forgotten up to any moment.
func TestLongHistoryExpired(t *testing.T) {
	const programs = 1000
	s := longHistory(programs)
	for i := 0; i < programs; i += 37 {
		at := tracefs.Time(i * 100)
		s.Expire(at)
		want := fmt.Sprintf("/program%d+0x0", i%7)
		if got := where(s, 1, 0x1000, at+60); got != want {
			t.Fatalf("program %d is %q, want %q", i, got, want)
		}
		if n := len(s.Space(1).Versions()); n > 2*(programs-i)+2*chunk {
			t.Fatalf("after %d programs, %d versions are left", i, n)
		}
	}
	s.Exit(1, programs*100)
	s.Expire(programs*100 + 1)
	if sp := s.Space(1); sp != nil {
		t.Errorf("of a process that has ended, %d versions are left", len(sp.Versions()))
	}
}

// TestLongHistoryLate: a change at a time that is too long ago to change has no
// effect.
func TestLongHistoryLate(t *testing.T) {
	const programs = 500
	s := longHistory(programs)
	m := mapping(0x1000, 0x2000, 0, "/late")
	s.Map(1, &m, 50)
	s.Unmap(1, 0, 0x9000, 50)
	s.Exec(1, "late", 50)
	s.Exit(1, 50)
	held := s.Space(1)
	s.Fork(3, 1, 50)
	if s.Space(1) != held || !held.Loading(1009, 1010) {
		t.Error("a fork of long ago has changed something")
	}
	for i := range programs {
		if got, want := where(s, 1, 0x1000, tracefs.Time(i*100+60)), fmt.Sprintf("/program%d+0x0", i%7); got != want {
			t.Fatalf("program %d is %q, want %q", i, got, want)
		}
	}
}

// BenchmarkRestless: what a change of a process costs that changes all the time.
func BenchmarkRestless(b *testing.B) {
	for _, programs := range []int{100, 1000, 4000} {
		b.Run(fmt.Sprint(programs), func(b *testing.B) {
			for b.Loop() {
				longHistory(programs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*programs), "ns/program")
		})
	}
}

// TestLongHistoryBorder: where the chain begins makes no difference: what a child
// gets of long ago, when a load ended of which the beginning was lost, and that
// nothing is left of who never was.
func TestLongHistoryBorder(t *testing.T) {
	capturetest.SkipShort(t)
	for programs := 20; programs < 200; programs += 3 {
		s := longHistory(programs)
		s.Fork(1, 2, 1060)
		if got := where(s, 2, 0x8000, 1070); got != "/library0+0x0" {
			t.Fatalf("after %d programs, the child of the eleventh has %q", programs, got)
		}
		end := tracefs.Time(programs * 100)
		for range 2 * chunk { // so that all loads are in the chain
			end += 10
			s.Exec(1, "unseen", end)
		}
		s.Loaded(1, end+5)
		if s.Space(1).Loading(1020, 1090) || !s.Space(1).Loading(end, end+1) {
			t.Fatalf("after %d programs, one of long ago is loading", programs)
		}
	}
	s := New()
	s.Fork(1, 9, 100)
	s.Exit(9, 100)
	if s.Expire(200); s.Len() != 0 {
		t.Errorf("of %d processes something is left", s.Len())
	}
}

// TestForkedOf: of a process that changes all the time, too, it is known at any time of
// which other process it was forked, and looking costs no more then.
func TestForkedOf(t *testing.T) {
	s := New()
	s.Fork(1, 7, 10)
	const changes = 40 * chunk
	for i := range tracefs.Time(changes) {
		if i == changes/2 {
			s.Fork(2, 7, 100+i)
			continue
		}
		l := mapping(0x8000, 0x9000, 0, "/library")
		s.MapExact(7, &l, 100+i)
		s.Unmap(7, 0x8000, 0x9000, 100+i)
	}
	sp := s.Space(7)
	if links := 0; sp != nil {
		sp.chain(func(*Space, int) bool { links++; return true })
		if links < 10 {
			t.Fatalf("%d links are no chain", links)
		}
	}
	for _, test := range []struct {
		at   tracefs.Time
		want int
	}{{5, 0}, {10, 1}, {100, 1}, {99 + changes/2, 1}, {100 + changes/2, 2}, {100 + changes, 2}} {
		if got := sp.ForkedOf(test.at); got != test.want {
			t.Errorf("at %d, it was forked of %d, want %d", test.at, got, test.want)
		}
	}
	if sp := sp.withoutPast(&s.budget); sp.ForkedOf(100+changes) != 2 {
		t.Error("without its past, it is of unknown origin")
	}
	if n := testing.AllocsPerRun(10, func() { sp.ForkedOf(100 + changes) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
