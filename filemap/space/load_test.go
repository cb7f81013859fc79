package space

import (
	"testing"

	"ustack/tracefs"
)

// TestLoading: when a process was loading a program.
func TestLoading(t *testing.T) {
	s := New()
	s.Loading(1, 5)
	s.Loaded(1, 6)
	if s.Space(1) != nil {
		t.Error("a process of which nothing is known has a space")
	}
	s.Exec(1, "a", 10)
	s.Loading(1, 10)
	s.Loaded(1, 20)
	s.Exec(1, "b", 30)
	s.Loading(1, 30)
	s.Exit(1, 40) // it never ran
	s.Fork(2, 1, 50)
	s.Exec(1, "c", 60)
	s.Loading(1, 60)
	s.LoadedAll(59, 65) // what was missed before does not count
	held := s.Space(1)
	s.LoadedAll(60, 70)
	s.Loaded(1, 80) // it had not been missed

	want := func(sp *Space, at tracefs.Time, want bool) {
		t.Helper()
		if got := sp.Loading(at, at+1); got != want {
			t.Errorf("at %d: loading %v, want %v", at, got, want)
		}
	}
	now := s.Space(1)
	for at, loading := range map[tracefs.Time]bool{
		9: false, 10: true, 19: true, 20: false, 29: false, 30: true, 39: true, 40: false, 55: false,
		60: true, 69: true, 79: true, 80: false, 1000: false,
	} {
		want(now, at, loading)
	}
	want(held, 1000, true)
	if now.Loading(5, 10) || !now.Loading(5, 11) || now.Loading(20, 30) || !now.Loading(0, 100) {
		t.Error("stretches of time are not met right")
	}

	s.Expire(35)
	want(s.Space(1), 30, true)
	s.Expire(45)
	want(s.Space(1), 30, false)
	want(s.Space(1), 60, true)
}
