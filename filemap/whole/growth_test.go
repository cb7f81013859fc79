package whole

import (
	"testing"

	"ustack/tracefs/perf"
)

// TestGrowth: four copies and one in 50 that are too short make it grow, whatever smaller
// copies, from before it has grown, come late.
func TestGrowth(t *testing.T) {
	many := func(g *growth, n, bytes int, short bool) {
		for range n {
			g.copied(bytes, short)
		}
	}
	g := growth{size: firstStack}
	many(&g, 3, firstStack, true)
	if g.due() {
		t.Error("three are too short: it grows")
	}
	many(&g, 1, firstStack, true)
	if !g.due() {
		t.Fatal("four of four are too short: it does not grow")
	}
	g = g.grown()
	many(&g, 100, firstStack, true)
	if g.due() {
		t.Errorf("copies of %d bytes from before: it grows over %d", firstStack, g.size)
	}
	many(&g, 201, 2*firstStack, false)
	many(&g, 4, 2*firstStack, true)
	if g.size != 2*firstStack || g.due() {
		t.Errorf("4 of 205 copies of %d bytes are too short: it grows", g.size)
	}
	many(&g, 1, 2*firstStack, true)
	for many(&g, 1, 2*firstStack, true); g.due(); many(&g, 4, g.size, true) {
		g = g.grown()
	}
	if g.size != perf.MaxStack {
		t.Errorf("it ends at %d bytes", g.size)
	}
}
