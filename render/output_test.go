package render

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// sanitized are texts and what a terminal gets of them.
var sanitized = []struct{ name, in, want string }{
	{"plain", "a b\tc\nd é 日本 \\033", "a b\tc\nd é 日本 \\033"},
	{"escape", "\x1b[31mred\x1b[0m", `\033[31mred\033[0m`},
	{"C0", "\x00\x01\a\b\v\f\r\x1f\x7f", `\000\001\007\010\013\014\015\037\177`},
	{"C1", "\u0080\u009b31m\u009f\u00a0", `\302\200\302\23331m\302\237` + "\u00a0"},
	{"C1 as bytes", "\x9b31m\x80", `\23331m\200`},
	{"no UTF-8", "a\xff\xfeb\xc0\xafc\xed\xa0\x80d\xf8\x88\x80\x80\x80", `a\377\376b\300\257c\355\240\200d\370\210\200\200\200`},
	{"half a character before text", "\xe6\x97x", `\346\227x`},
	{"U+FFFD itself", "\ufffd", "\ufffd"},
	{"other direction", "a\u202eb\u2066c\u2069\u200e\u200fd", `a\342\200\256b\342\201\246c\342\201\251\342\200\216\342\200\217d`},
	{"other direction, Arabic", "a\u061cb", `a\330\234b`},
	{"empty", "", ""},
}

func TestSanitizer(t *testing.T) {
	for _, c := range sanitized {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			n, err := NewSanitizer(&out).Write([]byte(c.in))
			if n != len(c.in) || err != nil || out.String() != c.want {
				t.Errorf("%d bytes, error %v: %s, want %s", n, err, out.String(), c.want)
			}
		})
	}
}

// TestSanitizerSplit: where one Write ends and the next begins changes
// nothing.
func TestSanitizerSplit(t *testing.T) {
	in, want := "", ""
	for _, c := range sanitized {
		in, want = in+c.in+".", want+c.want+"."
	}
	for i := range len(in) {
		for j := i; j <= min(i+4, len(in)); j++ {
			var out strings.Builder
			s := NewSanitizer(&out)
			writeAll(t, s, in[:i], in[i:j], in[j:])
			if out.String() != want {
				t.Fatalf("split at %d and %d: %q, want %q", i, j, out.String(), want)
			}
		}
	}
	var out strings.Builder
	writeAll(t, NewSanitizer(&out), strings.SplitAfter(in, "")...)
	bytewise := NewSanitizer(&out)
	for i := range len(in) {
		writeAll(t, bytewise, in[i:i+1])
	}
	if out.String() != want+want {
		t.Errorf("by character and by byte: %q, want twice %q", out.String(), want)
	}
}

func writeAll(t *testing.T, w io.Writer, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if n, err := io.WriteString(w, p); n != len(p) || err != nil {
			t.Fatalf("%d of %d bytes, error %v", n, len(p), err)
		}
	}
}

// TestSanitizerKeepsInput: the caller's bytes stay as they are, also when a
// Write begins with half a character.
func TestSanitizerKeepsInput(t *testing.T) {
	s := NewSanitizer(io.Discard)
	first, second := []byte("a\xe6"), []byte("\x97\xa5\x1b\x9b\xe6")
	for range 3 {
		for _, p := range [][]byte{first, second} {
			before := string(p)
			if _, err := s.Write(p); err != nil || string(p) != before {
				t.Fatalf("%q became %q, error %v", before, p, err)
			}
		}
	}
}

// FuzzSanitizer: what comes out is characters that do nothing, for any bytes
// in any pieces.
func FuzzSanitizer(f *testing.F) {
	for _, c := range sanitized {
		f.Add(c.in, 1)
	}
	f.Fuzz(func(t *testing.T, in string, cut int) {
		var out strings.Builder
		s := NewSanitizer(&out)
		cut = max(0, min(cut, len(in)))
		writeAll(t, s, in[:cut], in[cut:], ".")
		got := out.String()
		if !utf8.ValidString(got) || !strings.HasSuffix(got, ".") {
			t.Fatalf("%q became %q", in, got)
		}
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q became %q", in, got)
			}
		}
	})
}

func TestSanitizerError(t *testing.T) {
	if n, err := NewSanitizer(&broken{}).Write([]byte("x")); n != 0 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%d bytes, error %v", n, err)
	}
}

// TestOutput: files and pipes get the bytes as they are.
func TestOutput(t *testing.T) {
	var b strings.Builder
	if Output(&b) != io.Writer(&b) {
		t.Error("a buffer is taken for a terminal")
	}
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	if Output(f) != io.Writer(f) || IsTerminal(f) {
		t.Error("a file is taken for a terminal")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
