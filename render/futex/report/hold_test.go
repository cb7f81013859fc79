package report

import (
	"testing"

	"ustack/render/futex"
)

// TestHeld: holds of which the length is not known are never left out beside others, and are
// in front if they may be the longer part.
func TestHeld(t *testing.T) {
	const ms = 1_000_000
	for name, test := range map[string]struct {
		holds *futex.Holds
		want  string
	}{
		"nothing is known": {&futex.Holds{Count: 3, Unbounded: 3}, ""},
		"one":              {&futex.Holds{Count: 1, Exact: 1, Total: 2 * ms, Max: 2 * ms}, "2.00 ms in 1 hold"},
		"all":              {&futex.Holds{Count: 2, Exact: 2, Total: 4 * ms, P99: 3 * ms, Max: 3 * ms}, "4.00 ms in 2 holds, mean 2.00 ms, p99 3.00 ms, max 3.00 ms"},
		"bounds":           {&futex.Holds{Count: 2, Low: ms, High: 2 * ms}, "1.00 ms to 2.00 ms in 2 holds"},
		"no bound":         {&futex.Holds{Count: 9, Exact: 1, Total: 2 * ms, Unbounded: 8}, "an unknown time in 8 holds; 2.00 ms in 1 other"},
		"surely less":      {&futex.Holds{Count: 3, Exact: 1, Total: 2 * ms, Low: ms, High: 2 * ms}, "2.00 ms in 1 hold; 1.00 ms to 2.00 ms in 2 others"},
		"maybe more":       {&futex.Holds{Count: 3, Exact: 1, Total: 2 * ms, High: 400 * ms}, "at most 400 ms in 2 holds; 2.00 ms in 1 other"},
		"surely more":      {&futex.Holds{Count: 3, Exact: 1, Total: 2 * ms, Low: 400 * ms, Unbounded: 1}, "at least 400 ms in 2 holds; 2.00 ms in 1 other"},
	} {
		r := &futex.Report{}
		r.Scheduled, r.Ticks = true, false
		if got := (holdText{&text{r: r}}).held(test.holds); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
