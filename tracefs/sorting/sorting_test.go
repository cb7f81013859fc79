package sorting

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct {
	key, place int
	name       string
}

func items(r *rand.Rand, n int) []item {
	list := make([]item, n)
	for i := range list {
		list[i] = item{key: r.IntN(n/3 + 1), place: i, name: "x"}
	}
	return list
}

func byKey(a, b item) int { return cmp.Compare(a.key, b.key) }

// TestAsSlices sorts as package slices does, which outputs rely on: what two equal elements
// print in which order is the same in each build.
func TestAsSlices(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 3, 11, 12, 13, 49, 50, 51, 200, 1000} {
		for range 20 {
			list := items(r, n)
			want, stable, wantStable := slices.Clone(list), slices.Clone(list), slices.Clone(list)
			Func(list, byKey)
			slices.SortFunc(want, byKey)
			if !slices.Equal(list, want) {
				t.Fatalf("Func sorts %d elements in another order than slices.SortFunc:\n%v\n%v", n, list, want)
			}
			StableFunc(stable, byKey)
			slices.SortStableFunc(wantStable, byKey)
			if !slices.Equal(stable, wantStable) {
				t.Fatalf("StableFunc sorts %d elements in another order than slices.SortStableFunc:\n%v\n%v", n, stable, wantStable)
			}
		}
	}
}
