package binary

// cpuHeap are CPUs that have a record each, the one with the earliest record
// first.
type cpuHeap []*cpu

// before is the order of the kernel's own reader: of equal times the lowest CPU
// first.
func before(a, b *cpu) bool {
	return a.page.Time < b.page.Time || a.page.Time == b.page.Time && a.id < b.id
}

// order makes a heap of CPUs in any order.
func (h cpuHeap) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// push adds a CPU.
func (h *cpuHeap) push(c *cpu) {
	*h = append(*h, c)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !before(s[i], s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

// pop takes the first CPU out.
func (h *cpuHeap) pop() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	*h = s[:last]
	h.down(0)
}

// down puts the heap in order again after its element i has become later.
func (h cpuHeap) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if before(h[child], h[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}
