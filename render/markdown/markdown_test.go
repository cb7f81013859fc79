package markdown

import (
	"strings"
	"testing"
)

// TestCode: no name ends a cell, becomes markup or names a person.
func TestCode(t *testing.T) {
	got := Code("a|b`c\\d<e>&#f @g_*h\n\033")
	for _, bad := range []string{"|", "`", "\\", "<e", "& ", "@", "_", "*", "\n", "\033"} {
		if inner := strings.TrimSuffix(strings.TrimPrefix(got, "<code>"), "</code>"); strings.Contains(inner, bad) {
			t.Errorf("%q is in %q", bad, got)
		}
	}
}

// TestFenced: no text ends its block.
func TestFenced(t *testing.T) {
	for text, fence := range map[string]string{"a\n": "```", "a ```` b\n": "`````", "": "```", "```\n`": "````"} {
		lines := strings.Split(Fenced(text), "\n")
		if lines[0] != fence+"text" || lines[len(lines)-2] != fence {
			t.Errorf("%q: %q", text, lines)
		}
		for _, line := range lines[1 : len(lines)-2] {
			if strings.Contains(line, fence) {
				t.Errorf("%q: a line ends it: %q", text, line)
			}
		}
	}
}
