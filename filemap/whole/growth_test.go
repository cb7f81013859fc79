package whole

import (
	"testing"

	"ustack/tracefs/perf"
)

// TestGrowth: four copies and one in 50 that are too short make it grow, whatever smaller
// copies, from before it has grown, come late.
func TestGrowth(t *testing.T) {
	many := func(g *growth, n, bytes int, more uint64) {
		for range n {
			g.copied(bytes, more)
		}
	}
	g := growth{size: firstStack}
	many(&g, 3, firstStack, 1)
	if g.due() {
		t.Error("three are too short: it grows")
	}
	many(&g, 1, firstStack, 1)
	if !g.due() {
		t.Fatal("four of four are too short: it does not grow")
	}
	g = g.grown()
	many(&g, 100, firstStack, 1)
	if g.due() {
		t.Errorf("copies of %d bytes from before: it grows over %d", firstStack, g.size)
	}
	many(&g, 201, 2*firstStack, 0)
	many(&g, 4, 2*firstStack, 1)
	if g.size != 2*firstStack || g.due() {
		t.Errorf("4 of 205 copies of %d bytes are too short: it grows", g.size)
	}
	many(&g, 1, 2*firstStack, 1)
	for many(&g, 1, 2*firstStack, 1); g.due(); many(&g, 4, g.size, 1) {
		g = g.grown()
	}
	if g.size != perf.MaxStack {
		t.Errorf("it ends at %d bytes", g.size)
	}
	g = growth{size: firstStack}
	many(&g, 3, firstStack, 100*firstStack)
	many(&g, 1, firstStack, 2*firstStack)
	if g = g.grown(); g.size != mostGrowth*firstStack {
		t.Errorf("all need 3 times as much and more: it grows to %d", g.size)
	}
	g = growth{size: 2 * large}
	many(&g, 4, g.size, 2040)
	if g = g.grown(); g.size != 2*large+2*stackStep {
		t.Errorf("a large one that needs 2 KB more grows to %d", g.size)
	}
	if many(&g, 4, g.size, 1<<60); g.grown().size > perf.MaxStack {
		t.Errorf("one that needs too much grows to %d", g.grown().size)
	}
}

// TestRingFor: large copies have more room, within a bound for all CPUs.
func TestRingFor(t *testing.T) {
	for cpus := 1; cpus < 300; cpus++ {
		for size := firstStack; size <= perf.MaxStack; size += stackStep {
			ring := ringFor(size, cpus)
			if more := size > large && cpus <= 4; more != (ring > perf.DefaultSamplerRing) || ring < perf.DefaultSamplerRing {
				t.Fatalf("%d bytes, %d CPUs: a ring of %d", size, cpus, ring)
			}
			if ring > perf.DefaultSamplerRing && (ring*cpus > 64<<20 || ring/size < 250) {
				t.Fatalf("%d bytes, %d CPUs: %d bytes in all, room for %d", size, cpus, ring*cpus, ring/size)
			}
		}
	}
}
