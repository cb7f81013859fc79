package fleet

import (
	"fmt"
	"strings"
	"testing"
)

// TestParseTabSeparated: values as ClickHouse escapes them.
func TestParseTabSeparated(t *testing.T) {
	rows, err := ParseTabSeparated([]byte("1\ta\\tb\\n\\'\\\\\\0\t\\N\n\t\t\n"))
	if err != nil || len(rows) != 2 || len(rows[0]) != 3 || *rows[0][1] != "a\tb\n'\\\x00" || rows[0][2] != nil || *rows[1][0] != "" {
		t.Errorf("%v, %v", rows, err)
	}
	if rows, err := ParseTabSeparated(nil); err != nil || len(rows) != 0 {
		t.Errorf("%v, %v", rows, err)
	}
	for _, text := range []string{"a\\", "a\\x\n", "\\Nx\n"} {
		if rows, err := ParseTabSeparated([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, rows)
		}
	}
}

// FuzzParseTabSeparated: what was escaped is what is read.
func FuzzParseTabSeparated(f *testing.F) {
	f.Add("a\tb", "\\N")
	f.Add("", "\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		escaped := strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\x00", `\0`)
		rows, err := ParseTabSeparated([]byte(fmt.Sprintf("%s\t%s\t\\N\n", escaped.Replace(a), escaped.Replace(b))))
		if err != nil || len(rows) != 1 || *rows[0][0] != a || *rows[0][1] != b || rows[0][2] != nil {
			t.Errorf("%q, %q: %v, %v", a, b, rows, err)
		}
		_, _ = ParseTabSeparated([]byte(a)) // does not panic
	})
}
