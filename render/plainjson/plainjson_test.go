package plainjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"ustack/tracefs/escape"
)

// FuzzEscape: the output has nothing on which a terminal acts, and is the same string.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain", "a\u009b31m\u007f\u202ex", "\u0080", "é…µ\u00a0", "\x9b\xc2", "\u061c\u2066\"\\\n\t\x1b", "\U0001f600\u009f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.IndexFunc(text, escape.Acts); at >= 0 {
			t.Errorf("%q: a terminal acts on byte %d", text, at)
		}
		var back map[string]string
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		want := strings.ToValidUTF8(s, "\ufffd")
		for k, v := range back {
			if strings.ToValidUTF8(k, "\ufffd") != k || len([]rune(v)) != len([]rune(s)) || v != k || bytesEqualButInvalid(s, want, v) {
				t.Errorf("%q is read as %q", s, v)
			}
		}
	})
}

// bytesEqualButInvalid reports whether a string of valid UTF-8 is read as another one.
func bytesEqualButInvalid(s, want, got string) bool { return s == want && got != want }

// TestEncoder: values follow each other in lines, indented as the encoder is told.
func TestEncoder(t *testing.T) {
	var out strings.Builder
	e := NewEncoder(&out)
	e.SetIndent("", " ")
	for _, v := range []any{map[string]string{"a": "\u009b"}, "<\u202e>"} {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if want := "{\n \"a\": \"\\u009b\"\n}\n\"\\u003c\\u202e\\u003e\"\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}
