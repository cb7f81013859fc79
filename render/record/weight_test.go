package record

import (
	"strings"
	"testing"
)

// TestMergeWeight: where reports stand for others, a merged report has how often all have a
// stack, and the bounds of that; without weights it is as it was.
func TestMergeWeight(t *testing.T) {
	for _, test := range []struct {
		weights []string
		want    string
	}{
		{[]string{"", ""}, "count=6 by_device=1:3,2:3"},
		{[]string{"1", "1"}, "count=6 by_device=1:3,2:3"},
		{[]string{"", "10"}, "count=6 by_device=1:3,2:3 estimate=33 at_least=6"},
		{strings.Fields("2 2 2 2 2 2 2 2 2 2"), "estimate=60 at_least=30 at_most=139"},
	} {
		m := NewMerge()
		for _, weight := range test.weights {
			r := m.Report()
			if weight != "" {
				check(t, r.field([]byte("# ustack: weight="+weight+"\n")))
			}
			for range 3 {
				r.device()
				r.add("event", " a\n")
			}
		}
		got, _, _ := strings.Cut(string(m.appendCounted(nil, 1, stackKey{"event", " a\n"})), "\n")
		if !strings.HasSuffix(got, test.want) {
			t.Errorf("%q: %q, want %q", test.weights, got, test.want)
		}
	}
	for _, weight := range []string{"", "0.5", "NaN", "1e7", "x"} {
		if err := NewMerge().Report().field([]byte("# ustack: weight=" + weight + "\n")); err == nil {
			t.Errorf("a weight of %q", weight)
		}
	}
}
