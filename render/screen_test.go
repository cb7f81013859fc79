package render

import (
	"bytes"
	"testing"
)

func TestHead(t *testing.T) {
	for _, c := range []struct {
		line    string
		columns int
		want    string
	}{{"", 3, ""}, {"ab", 3, "ab"}, {"abcd", 3, "abc"}, {"äöü€", 3, "äöü"}, {"\xff\xfe\xfd\xfc", 3, "\xff\xfe\xfd"}, {"x", 0, ""}} {
		if got := head([]byte(c.line), c.columns); string(got) != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.line, c.columns, got, c.want)
		}
	}
}

// TestNoScreen: only a terminal is a screen, and clearing nothing is no error.
func TestNoScreen(t *testing.T) {
	s := NewScreen(new(bytes.Buffer))
	if s != nil {
		t.Error("a buffer is a screen")
	}
	if err := s.Clear(); err != nil {
		t.Error(err)
	}
}
