package instance

import (
	"strings"
	"testing"
)

// FuzzFiles gives the readers of control files what no kernel writes.
func FuzzFiles(f *testing.F) {
	for _, text := range []string{statsText, "[local] global mono", "7 (expanded: 1408)\n", "[]", "[ 1.2] x] y\n  ^\n",
		"36 24 0:12 / /a\\040b rw - tracefs nodev rw\n", "a\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseStats(text); err == nil && !strings.Contains(text, ":") && s != (Stats{}) {
			t.Errorf("%q: %+v", text, s)
		}
		if kb, err := parseKB(text); err == nil && kb < 0 {
			t.Errorf("%q: %d KiB", text, kb)
		}
		all, current := words(text)
		if current != "" && !strings.Contains(text, "["+current+"]") || len(all) != len(strings.Fields(text)) {
			t.Errorf("%q: %q, %q", text, all, current)
		}
		if got := errorText(text); len(got) > len(text) || strings.Contains(got, "\n\n") {
			t.Errorf("%q became %q", text, got)
		}
		for _, path := range mountPoints(text) {
			if path == "" {
				t.Errorf("%q: an empty path", text)
			}
		}
	})
}
