package nearest

import (
	"strings"
	"testing"
)

var topics = []string{"replay", "live", "futex", "symbols", "benchmarks", "glossary"}

func TestName(t *testing.T) {
	for from, want := range map[string]string{
		"repaly": "replay", "symbol": "symbols", "bench": "benchmarks", "glosary": "glossary", "futexes": "futex",
		"": "", "ZZZZ": "", strings.Repeat("x", longest+1): "",
	} {
		if got, ok := Name(from, topics); got != want || ok != (want != "") {
			t.Errorf("nearest to %.20q is %q, want %q", from, got, want)
		}
	}
}

// TestMeant: a slip has a name, another word has none.
func TestMeant(t *testing.T) {
	for word, want := range map[string]string{
		"repaly": "replay", "lve": "live", "lvie": "live", "futx": "futex", "fuetx": "futex", "bench": "benchmarks", "glossaries": "glossary",
		"": "", "help": "", "evil": "", "redis-server": "", "bash": "", "1234": "",
	} {
		if want != "" {
			want = " (did you mean " + want + "?)"
		}
		if got := Meant(word, topics); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func FuzzDistance(f *testing.F) {
	f.Add("repaly", "replay")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) {
			t.Errorf("distance(%q, %q) = %d", a, b, d)
		}
	})
}
