package futex

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The first ones of a list are the ones that sorting it would put there.
func TestFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		list := make([]int, r.IntN(50))
		for i := range list {
			list[i] = r.IntN(20)
		}
		want := slices.Sorted(slices.Values(list))
		n := r.IntN(len(list) + 1)
		first(list, n, func(x, y *int) bool { return *x < *y })
		slices.Sort(list[:n])
		slices.Sort(list[n:])
		if !slices.Equal(list, want) {
			t.Fatalf("the first %d of %v are %v", n, want, list)
		}
	}
}

// A lock map is a map.
func TestLockMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var m lockMap
	want := make(map[lockKey]*lock)
	for range 5000 {
		key := lockKey{uint64(r.IntN(6)), false}
		switch r.IntN(3) {
		case 0:
			l := new(lock)
			m.put(key, l)
			want[key] = l
		case 1:
			m.drop(key)
			delete(want, key)
		}
		if m.get(key) != want[key] || m.count() != len(want) {
			t.Fatalf("%d locks, want %d", m.count(), len(want))
		}
		m.each(func(key lockKey, l *lock) {
			if want[key] != l {
				t.Fatalf("another lock at %v", key)
			}
		})
	}
}
