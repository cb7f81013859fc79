package diff_test

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"ustack/render/futex/diff"
)

// FuzzRead: whatever a report is, it is read or refused, does not differ from itself, and what
// is said of it has no control characters.
func FuzzRead(f *testing.F) {
	r := random()
	m := newModel(r, 3)
	other := m.report(r, build{id: "aa", lines: true}, 5, 0)
	f.Add(other)
	f.Add(m.report(r, build{id: "bbb", stripped: true}, 5, 0.5))
	f.Add([]byte(`{"schema":"ustack.futex/1","time_unit":"ns","locks":[{"waits":3,"total_ns":9,"wait_stacks":[{"stack":[{"path":"\u001b[2J"}]}]}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		x, err := diff.Read(bytes.NewReader(doc))
		if err != nil {
			return
		}
		if d := compare(t, x, x); d.Differs() || len(d.Changes) > 0 {
			t.Errorf("it differs from itself: %+v", d.Changes)
		}
		y := read(t, other)
		there, err := diff.Compare(x, y, diff.Options{Norm: diff.PerSecond})
		if err != nil {
			return // other units
		}
		back, err := diff.Compare(y, x, diff.Options{Norm: diff.PerSecond})
		if err != nil || there.Differs() != back.Differs() || len(there.Changes) != len(back.Changes) {
			t.Errorf("%d changes, mirrored %d, %v", len(there.Changes), len(back.Changes), err)
		}
		var text bytes.Buffer
		if err := diff.Text(&text, there, true); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(text.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 }) || !utf8.Valid(text.Bytes()) {
			t.Errorf("%q", &text)
		}
		for _, c := range there.Changes {
			for _, s := range c.Sides {
				if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || math.IsNaN(s.Error) || math.IsNaN(s.High) {
					t.Errorf("%+v", s)
				}
			}
		}
		if err := diff.JSON(io.Discard, there); err != nil {
			t.Error(err)
		}
	})
}

// TestRefused: a document that cannot be a report of futexes is refused.
func TestRefused(t *testing.T) {
	r := random()
	good := string(newModel(r, 2).report(r, build{id: "aa"}, 5, 0))
	for _, test := range []struct{ old, new, want string }{
		{`"ustack.futex/1"`, `"ustack.futex/2"`, "schema"},
		{`"time_unit":"ns"`, `"time_unit":"h"`, "time_unit"},
		{`"slice_ns":`, `"slice_ns":-`, "slices"},
		{`"slice_ns":`, `"slice_ns":1,"x":`, "slices"},
		{`"start_ns":`, `"start_ns":-`, "start"},
		{`"at":0,`, `"at":32,`, "slices"},
		{`"at":1,`, `"at":0,`, "slices"},
		{`"count":`, `"count":-`, "histogram"},
		{`"total_ns":`, `"total_ns":9223372036854775807,"x":`, "no time"},
		{`"futexes":`, `"by":"kind","futexes":`, "--by kind"},
		{`"locks":[`, `"locks":[{"bounds":{"low_ns":5,"high_ns":4}},`, "bound"},
		{`"locks":[`, `"locks":[{"histogram":[{"from_ns":4},{"from_ns":4}]},`, "histogram"},
		{`"locks":[`, `"locks":{`, "reading the report"},
	} {
		if !strings.Contains(good, test.old) {
			t.Fatalf("no %s", test.old)
		}
		_, err := diff.Read(strings.NewReader(strings.Replace(good, test.old, test.new, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.new, err, test.want)
		}
	}
	for _, doc := range []string{"", "{", good + "{}", good[:len(good)/2], "null", "[]"} {
		if _, err := diff.Read(strings.NewReader(doc)); err == nil {
			t.Errorf("%.20q: no error", doc)
		}
	}
}
