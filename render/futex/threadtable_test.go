package futex

import (
	"math/rand/v2"
	"testing"
)

// TestThreadTable: the table finds what a map finds, in the order in which threads
// came, whatever numbers they have and which of them are forgotten.
func TestThreadTable(t *testing.T) {
	for what, tid := range map[string]func(r *rand.Rand, i int) int32{
		"in a row":      func(_ *rand.Rand, i int) int32 { return int32(i) },
		"random":        func(r *rand.Rand, _ int) int32 { return r.Int32() },
		"low bits same": func(_ *rand.Rand, i int) int32 { return int32(i << 16) },
		"negative":      func(r *rand.Rand, _ int) int32 { return -r.Int32N(5000) },
	} {
		r := rand.New(rand.NewPCG(1, 2))
		var table threadTable
		known := map[int32]*thread{}
		var order []int32
		for i := range 20_000 {
			id := tid(r, i)
			if th := table.get(id); th != known[id] {
				t.Fatalf("%s: thread %d is %p, want %p", what, id, th, known[id])
			}
			if known[id] == nil {
				known[id] = &thread{tid: id}
				table.put(known[id])
				order = append(order, id)
			}
			if i%3000 != 2999 {
				continue
			}
			var gone []candidate
			var left []int32
			for at, n := range table.list {
				if r.IntN(2) == 0 {
					gone = append(gone, candidate{th: n.th, tid: n.tid, at: int32(at)})
					delete(known, n.tid)
				} else {
					left = append(left, n.tid)
				}
			}
			r.Shuffle(len(gone), func(i, k int) { gone[i], gone[k] = gone[k], gone[i] })
			table.forget(gone)
			order = left
		}
		i := 0
		for th := range table.all() {
			if i == len(order) || th.tid != order[i] || known[th.tid] != th {
				t.Fatalf("%s: the thread at %d is %d of %d", what, i, th.tid, len(order))
			}
			i++
		}
		if i != len(order) || table.count() != len(known) {
			t.Errorf("%s: %d threads, counted %d, want %d", what, i, table.count(), len(known))
		}
		for id := range known {
			if table.get(id) != known[id] {
				t.Errorf("%s: thread %d is not found", what, id)
			}
		}
	}
}

// TestThreadTableProbes: numbers next to each other, and those with the same low bits,
// are found in few steps.
func TestThreadTableProbes(t *testing.T) {
	for _, apart := range []int32{1, 2, 4, 1 << 10, 1 << 15} {
		var table threadTable
		for i := range int32(1 << 16) {
			table.put(&thread{tid: i * apart})
		}
		steps, mask := 0, uint32(len(table.slots)-1)
		for i := range int32(1 << 16) {
			for k := table.slot(i * apart); table.slots[k].tid != i*apart; k = (k + 1) & mask {
				steps++
			}
		}
		if most := 4; steps>>16 > most {
			t.Errorf("%d apart: %d steps for each, at most %d wanted", apart, steps>>16, most)
		}
	}
}
