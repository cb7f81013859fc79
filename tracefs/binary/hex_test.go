package binary

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestHex compares appendHex with strconv, for numbers of all lengths.
func TestHex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 100_000 {
		v := r.Uint64() >> (i % 65)
		if got, want := string(appendHex([]byte("x"), v)), "x"+strconv.FormatUint(v, 16); got != want {
			t.Fatalf("%d: %q, not %q", v, got, want)
		}
	}
}
