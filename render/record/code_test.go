package record

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/redact"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// withCode is a stack with a frame in code without a file.
func withCode(t *testing.T, code string) string {
	t.Helper()
	return strings.Replace(unwoundTrace, " =>  <0000000000000100> : path=/opt/app\n", fmt.Sprintf(" =>  <00007f5e7cb31006> : [anon:a b]%s (unresolved: anonymous)\n", code), 1)
}

// escaped is pending for text of a report.
func escaped(t *testing.T, txt string) *resolve.Pending {
	t.Helper()
	scan := text.NewScanner()
	scan.Events = true
	b := &tracefs.Batch{Text: []byte(txt)}
	_, err := scan.Scan(b, text.MoreNever)
	check(t, err)
	b.Escaped = true
	res := resolve.New(resolve.Options{})
	res.Add(b)
	res.End()
	return res.Next()
}

// ofCode returns the memory of the frame in it, nil if it has none.
func ofCode(t *testing.T, h *resolve.Pending) *filemap.Memory {
	t.Helper()
	for i := range h.Records {
		if h.Records[i].Kind == tracefs.KindStack {
			out, _ := h.StackAttributions(i)
			return out[1].Memory
		}
	}
	t.Fatalf("no stack in %s", h.Text)
	return nil
}

// TestCodeKept: a report has the function of a frame in code without a file, redacted by
// another name.
func TestCodeKept(t *testing.T) {
	const addr = 0x7f5e7cb31006
	for _, want := range []*filemap.Code{
		nil, {Function: "JS:*inner /srv/a b.js:3", Start: addr - 0xb9}, {Function: "secret\n" + text.CodeMark + " (unresolved: late)", Start: addr},
		{Function: "A.secret", Runtime: true, Offset: 12, Inlined: []string{"B.secret", "C.d+0x1"}},
	} {
		h := escaped(t, withCode(t, string(appendCode(nil, want, addr))))
		m := ofCode(t, h)
		if m == nil || m.Name != "[anon:a b]" || !m.Exec || !reflect.DeepEqual(m.Code, want) {
			t.Fatalf("%+v: read %+v", want, m)
		}
		var b bytes.Buffer
		check(t, NewCompact(&b).Batch(h))
		if again := ofCode(t, escaped(t, b.String())); !reflect.DeepEqual(again, m) {
			t.Errorf("%+v: written and read %+v\n%s", want, again, &b)
		}
		b.Reset()
		c := NewCompact(&b)
		c.Redact = redact.New(bytes.Repeat([]byte("k"), 32), nil)
		c.Identifiers = IdentifiersFor(c.Redact)
		check(t, c.Batch(h))
		if s := b.String(); strings.Contains(s, "secret") || strings.Contains(s, "inner") || strings.Contains(s, "C.d") || strings.Contains(s, "a b") {
			t.Errorf("%+v: %s", want, s)
		}
		if m := ofCode(t, escaped(t, b.String())); m == nil || (m.Code == nil) != (want == nil) || want != nil && len(m.Code.Inlined) != len(want.Inlined) {
			t.Errorf("%+v: redacted, %+v\n%s", want, m, &b)
		}
	}
}

// TestCodeElsewhere: what is no function of a report is none.
func TestCodeElsewhere(t *testing.T) {
	for _, code := range []string{"", " code=work", " code=work+0x7f5e7cb31007", " code=work+0x1 (unresolved: late)"} {
		h := escaped(t, withCode(t, code))
		if m := ofCode(t, h); m != nil {
			t.Errorf("%q: %+v", code, m)
		}
	}
}
