package text

import (
	"bytes"
	"reflect"
	"testing"
)

// TestCode: what is written of a function is read back, whatever its name.
func TestCode(t *testing.T) {
	names := []string{"work", "JS:*inner /srv/a b.js:3:19", "a\nb", "x" + CodeMark + "y", "+0x1", "a@2", "a+0x1@", `\101`, "@", " (unresolved: late)", "\xff"}
	list := []Code{{}}
	for _, name := range names {
		list = append(list, Code{Function: name}, Code{Function: name, Offset: 0xb9}, Code{Function: name, Offset: 1<<64 - 1, Runtime: true})
		for _, inlined := range names {
			list = append(list, Code{Function: name, Offset: 3, Runtime: true, Inlined: []string{inlined, name}})
		}
	}
	for _, want := range list {
		b := AppendCode([]byte("[anon]"), &want)
		before, got, ok := CutCode(b)
		if !ok || string(before) != "[anon]" || !reflect.DeepEqual(got, want) || bytes.ContainsAny(b, "\n") {
			t.Errorf("%+v: %q: %q %+v, %v", want, b, before, got, ok)
		}
	}
	for _, bad := range []string{"[anon]", "[anon] code=work", "[anon] code=+0x1", "[anon] code=a+0x", "[anon] code=a+0xg", "[anon] code=a@-1",
		"[anon] code=a+0x1 code=b", "[anon] code=a+0x12345678901234567", "[anon] code=@1"} {
		if _, c, ok := CutCode([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, c)
		}
	}
}

func FuzzCutCode(f *testing.F) {
	f.Add([]byte("[anon] code=JS:*work+0xb9"))
	f.Add([]byte("[anon:a b] code=A.b@12 code=C.d"))
	f.Add([]byte("[anon] code="))
	f.Fuzz(func(t *testing.T, text []byte) {
		before, c, ok := CutCode(text)
		if !ok {
			return
		}
		_, again, ok := CutCode(AppendCode(bytes.Clone(before), &c))
		if !ok || !reflect.DeepEqual(again, c) {
			t.Errorf("%q: %+v, again %+v, %v", text, c, again, ok)
		}
	})
}
