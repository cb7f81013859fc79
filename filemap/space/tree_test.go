package space

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ustack/tracefs/capturetest"
)

// checkTree holds the invariants of Mappings: they are in order, do not overlap
// and are not empty, sizes are right, and no side is too heavy.
func checkTree(t *testing.T, ms Mappings) {
	t.Helper()
	var walk func(n *node, from, to uint64) int
	walk = func(n *node, from, to uint64) int {
		if n == nil {
			return 0
		}
		if n.Start >= n.End || n.Start < from || n.End > to {
			t.Fatalf("%#x-%#x lies outside of %#x-%#x", n.Start, n.End, from, to)
		}
		size := walk(n.left, from, n.Start) + walk(n.right, n.End, to) + 1
		if n.len() != size {
			t.Fatalf("a node of %d says that it has %d", size, n.len())
		}
		const loose = ratio + 1 // joins may leave a side a little heavier
		if l, r := n.left.weight(), n.right.weight(); size > 3 && (l > loose*r || r > loose*l) {
			t.Fatalf("the sides weigh %d and %d", l, r)
		}
		return size
	}
	walk(ms.root, 0, ^uint64(0))
}

// TestMappings holds changes of mappings against a table of pages, and what was
// there before each change against how it was then.
func TestMappings(t *testing.T) {
	const pages, page = 64, 0x1000
	type table [pages]string
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var now table
		var ms Mappings
		type moment struct {
			ms   Mappings
			want table
		}
		var before []moment
		for range 300 {
			from := rnd.IntN(pages)
			to := min(pages, from+1+rnd.IntN(6))
			busy := false
			for _, what := range now[from:to] {
				busy = busy || what != ""
			}
			var clash bool
			if rnd.IntN(3) == 0 {
				ms, clash = ms.cut(uint64(from)*page, uint64(to)*page)
				clear(now[from:to])
			} else {
				m := Mapping{Start: uint64(from) * page, End: uint64(to) * page, Offset: uint64(rnd.IntN(100)) * page}
				ms, clash = ms.put(m)
				for i := from; i < to; i++ {
					now[i] = fmt.Sprint(m.Offset + uint64(i-from)*page)
				}
			}
			if clash != busy {
				t.Fatalf("seed %d: clash is %v, want %v", seed, clash, busy)
			}
			checkTree(t, ms)
			before = append(before, moment{ms, now})
		}
		for n, at := range before {
			for i, want := range at.want {
				addr, got := uint64(i)*page+8, ""
				if m := at.ms.Find(addr); m != nil {
					got = fmt.Sprint(m.Offset + addr - 8 - m.Start)
				}
				if got != want {
					t.Fatalf("seed %d: after change %d page %d is %q, want %q", seed, n, i, got, want)
				}
			}
		}
	}
}

// TestMappingsBalanced: nothing that a program does makes the tree a list.
func TestMappingsBalanced(t *testing.T) {
	capturetest.SkipShort(t)
	const n = 20000
	for name, next := range map[string]func(i uint64) uint64{
		"up":        func(i uint64) uint64 { return i },
		"down":      func(i uint64) uint64 { return 2*n - i },
		"both ends": func(i uint64) uint64 { return n + i*(1-2*(i&1)) },
		"middle":    func(i uint64) uint64 { return n + (n-i)*(1-2*(i&1)) },
	} {
		var ms Mappings
		for i := range uint64(n) {
			at := next(i) + n
			ms, _ = ms.put(Mapping{Start: at << 12, End: (at + 1) << 12})
		}
		checkTree(t, ms)
		if ms.Len() != n {
			t.Fatalf("%s: %d mappings", name, ms.Len())
		}
		for ms.Len() > 10 { // what is cut out leaves it balanced
			first := ms.first()
			ms, _ = ms.cut(first.Start, first.Start+uint64(ms.Len())<<11)
		}
		checkTree(t, ms)
	}
}

func (ms Mappings) first() *Mapping {
	for m := range ms.All() {
		return m
	}
	return nil
}
