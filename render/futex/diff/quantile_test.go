package diff

import (
	"math"
	"testing"
)

// TestQuantile: against tables of Student's distribution (R's qt).
func TestQuantile(t *testing.T) {
	for _, test := range []struct{ p, freedom, want float64 }{
		{0.975, 30, 2.042272}, {0.995, 16, 2.920782}, {0.9995, 31, 3.633456}, {0.995, 8, 3.355387}, {0.9999, 20, 4.538521}, {0.975, 1e6, 1.959966},
	} {
		if got := quantile(test.p, test.freedom); math.Abs(got-test.want) > 0.02*test.want {
			t.Errorf("%g with %g: %.6f, want %.6f", test.p, test.freedom, got, test.want)
		}
	}
}

// TestPlain: names of one function in several builds are one, and of two stay two.
func TestPlain(t *testing.T) {
	for name, want := range map[string]string{
		"transfer": "transfer", "transfer.isra.0": "transfer", "transfer.part.0.cold": "transfer", "a::b::h0123456789abcdef": "a::b",
		"a::b::hello": "a::b::hello", "main.(*T).do.func1": "main.(*T).do.func1", "": "",
	} {
		if got := plain(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"teller-12": "teller-#", "1a22b": "#a#b", "x": "x", "": ""} {
		if got := numbered(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
