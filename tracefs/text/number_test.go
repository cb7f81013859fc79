package text

import (
	"strconv"
	"strings"
	"testing"
)

// TestHexWord compares the word-at-a-time reader with strconv for every byte
// value in every place.
func TestHexWord(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for at := 0; at < n; at++ {
			for c := 0; c < 256; c++ {
				text := []byte("0af91b2c\n\xff\xff\xff\xff\xff\xff\xff")
				text[n], text[at] = '\n', byte(c)
				digits := string(text[:n])
				want, err := strconv.ParseUint(digits, 16, 64)
				valid := err == nil && digits == strings.ToLower(digits)
				got, ok := hexWord(le64(text), n)
				if ok != valid || ok && got != want {
					t.Fatalf("hexWord(%q) = %#x, %v, want %#x, %v", digits, got, ok, want, valid)
				}
			}
		}
	}
}

func TestDecimalWord(t *testing.T) {
	for _, s := range []string{"0", "7", "12", "1234567", "99999999", "4194304"} {
		got := decimalWord(le64([]byte(s+"        ")), len(s))
		if strconv.FormatUint(got, 10) != s {
			t.Errorf("decimalWord(%q) = %d", s, got)
		}
	}
}

func TestLineFeedIn(t *testing.T) {
	for n := 0; n <= 8; n++ {
		w := []byte("\x0b\x09\x8a\xff\x00\x0b\x09\x8a\n")
		if n < 8 {
			w[n] = '\n'
		}
		if got := lineFeedIn(le64(w)); got != n {
			t.Errorf("line feed at %d found at %d", n, got)
		}
	}
}
