package escape

import (
	"bytes"
	"fmt"
	"testing"
)

var cases = []struct{ raw, text string }{
	{"", ""},
	{"plain text of more than eight bytes", "plain text of more than eight bytes"},
	{"a\nb", `a\012b`},
	{"\x00\x01\t\r\x1b[31m\x1f\x7f", `\000\001\011\015\033[31m\037\177`},
	{`\`, `\`},
	{`C:\dir`, `C:\dir`},
	{`dev-disk\x2dlabel`, `dev-disk\x2dlabel`},
	{`\012`, `\134012`},
	{`\\012`, `\\134012`},
	{`\400`, `\400`},
	{`\081`, `\081`},
	{`\01`, `\01`},
	{"\\\n12", `\\01212`},
	{"\\0\n", `\0\012`},
	{"ü\xff\x80", "ü\xff\x80"},
	{"1234567\n", `1234567\012`},
	{"12345678\n", `12345678\012`},
	{"\u009b31m\u0080\u009f\u00a0\u00ff", `\302\23331m\302\200\302\237` + "\u00a0\u00ff"},
	{"1234567\u009bx", `1234567\302\233x`},
	{"12345678901234\u202ex", `12345678901234\342\200\256x`},
	{"\u200e\u200f\u202a\u2066\u2069\u061c", `\342\200\216\342\200\217\342\200\252\342\201\246\342\201\251\330\234`},
	{"\u2013\u2026\u2190\u00b5\u0600\u200d", "\u2013\u2026\u2190\u00b5\u0600\u200d"},
	{"\xc2", "\xc2"},
	{"\xe2\x80", "\xe2\x80"},
}

func TestAppend(t *testing.T) {
	for _, c := range cases {
		got := string(Append(nil, []byte(c.raw)))
		if got != c.text {
			t.Errorf("%q is written as %q, want %q", c.raw, got, c.text)
		}
		if back := string(Undo([]byte(c.text))); back != c.raw {
			t.Errorf("%q is read as %q, want %q", c.text, back, c.raw)
		}
		if tail := string(Tail([]byte("\n:"+c.raw), 2)); tail != "\n:"+c.text {
			t.Errorf("%q after other text becomes %q", c.raw, tail)
		}
	}
}

// TestIndex: the first byte is found wherever it stands in a word.
func TestIndex(t *testing.T) {
	for size := range 24 {
		text := bytes.Repeat([]byte("\xffz"), 12)[:size]
		if at := Index(text); at != -1 {
			t.Errorf("%q has one at %d", text, at)
		}
		for at := range size {
			for c := range 256 {
				odd := bytes.Clone(text)
				odd[at] = byte(c)
				want := -1
				if c < ' ' || c == 0x7f {
					want = at
				}
				if got := Index(odd); got != want {
					t.Fatalf("the first one of %q is at %d, want %d", odd, got, want)
				}
			}
		}
	}
}

// TestLen: places in the string are found in its text.
func TestLen(t *testing.T) {
	for _, c := range cases {
		for n := range len(c.raw) + 1 {
			at := Len([]byte(c.text), n)
			if at < 0 || string(Undo([]byte(c.text)[:at])) != c.raw[:n] {
				t.Errorf("the first %d bytes of %q are %d bytes of %q", n, c.raw, at, c.text)
			}
		}
		if at := Len([]byte(c.text), len(c.raw)+1); at != -1 {
			t.Errorf("%q has %d bytes, and one more at %d", c.text, len(c.raw), at)
		}
	}
}

// TestForeign: what others have escaped is read, too: every backslash, and
// blanks, as in mountinfo.
func TestForeign(t *testing.T) {
	if got := Undo([]byte(`/a\040b\134c\12`)); string(got) != `/a b\c\12` {
		t.Errorf("read as %q", got)
	}
}

func FuzzUndo(f *testing.F) {
	for _, c := range cases {
		f.Add([]byte(c.raw))
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		text := Append(nil, raw)
		if at := bytes.IndexFunc(text, Acts); at >= 0 {
			t.Errorf("%q has a control character at %d", text, at)
		}
		if back := Undo(text); !bytes.Equal(back, raw) {
			t.Errorf("%q is read as %q", text, back)
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	for _, size := range []int{16, 80, 1024} {
		text := bytes.Repeat([]byte("x"), size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if Index(text) >= 0 {
					b.Fatal("found")
				}
			}
		})
	}
}
