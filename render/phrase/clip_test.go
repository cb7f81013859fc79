package phrase

import "testing"

// TestClip: a line has no more columns than there are, also of characters that have two.
func TestClip(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", ""},
		{"12345678", "12345678"},
		{"123456789", "1234567…"},
		{"µs…é–12", "µs…é–12"},
		{"日本語12", "日本語12"},
		{"日本語123", "日本語1…"},
		{"1日本語12", "1日本語…"},
		{"12日本語1", "12日本…"},
		{"日本語日本語", "日本語…"},
		{"\xff\xff345678", "\xff\xff345678"},
	} {
		if got := Clip(c.line, 8); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}
