package render

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// shown is what renderers make of a text of ours, which begins with its head.
func shown(t *testing.T, own string, json bool, attributor resolve.Attributor) string {
	t.Helper()
	own, ok := strings.CutPrefix(own, text.Head)
	if !ok {
		t.Fatalf("no head: %s", own)
	}
	scan := text.NewScanner()
	scan.Events = true
	scan.UseEscapes()
	b := &tracefs.Batch{Text: []byte(own)}
	if _, err := scan.Scan(b, text.MoreNever); err != nil {
		t.Fatal(err)
	}
	res := resolve.New(resolve.Options{Stitch: json, Attributor: attributor})
	var out bytes.Buffer
	var r Renderer = NewText(&out, TextOptions{BuildID: NoID})
	if json {
		r = NewJSON(&out, res, 1<<20)
	}
	res.Add(b)
	res.End()
	render(t, res, r, true)
	if err := r.Close(res.Totals()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestEscaped: text that is escaped stays so and has its head, what is put into it is
// escaped, too, and read again it says the same; JSON has the strings themselves.
func TestEscaped(t *testing.T) {
	paths := []string{"/tmp/a\n# x\t\x1b", `/tmp/\012`, "/x build_id={0x1,0x2,0x3,0x4,0x5}", "/x : path=/y (unresolved: no-vma)", "/z (inferred)"}
	var attributor fixedAttributions
	in := text.Head + `             a\012b-7       [001] .....   100.000001: ev: one\012two\134012` + "\n" + line("cat", 7, "100.000002", "<user stack trace>")
	for i, path := range paths {
		attributor = append(attributor, resolve.Attribution{File: &filemap.File{Path: path}, Trust: filemap.Verified, Offset: uint64(i + 1), HasOffset: true})
		in += " =>  <00007f0000001234>\n"
	}
	attributor = append(attributor, resolve.Attribution{Reason: filemap.Anonymous, Memory: &filemap.Memory{Name: "[anon:a\nb]"}})
	in += " =>  <00007f0000001235>\n"
	got := shown(t, in, false, attributor)
	if again := shown(t, got, false, nil); again != got {
		t.Errorf("text\n%s, and again\n%s", got, again)
	}
	if !strings.Contains(got, "ev: one\\012two\\134012\n") || !strings.Contains(got, ` : path=/tmp/a\012# x\011\033`+"\n") || !strings.Contains(got, ` : [anon:a\012b] (unresolved: anonymous)`) {
		t.Errorf("text\n%s", got)
	}
	for what, lines := range map[string]string{"at once": shown(t, in, true, attributor), "again": shown(t, got, true, nil)} {
		var comms, args, files []string
		for line := range strings.Lines(lines) {
			var r struct {
				Comm, Args string
				Stack      []struct{ Path string }
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Args != "" {
				comms, args = append(comms, r.Comm), append(args, r.Args)
			}
			for _, f := range r.Stack {
				if f.Path != "" {
					files = append(files, f.Path)
				}
			}
		}
		if !slices.Equal(comms, []string{"a\nb"}) || !slices.Equal(args, []string{"one\ntwo\\012"}) || !slices.Equal(files, paths) {
			t.Errorf("%s: %q, %q, %q", what, comms, args, files)
		}
	}
}
