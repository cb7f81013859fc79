package render

import (
	"encoding/json"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
)

// fixedAttributions is evidence that gives the frames of every stack these attributions.
type fixedAttributions []resolve.Attribution

func (list fixedAttributions) Attribute(s *resolve.Query) { copy(s.Attributions, list) }

// TestMemory: frames outside files say what they are in.
func TestMemory(t *testing.T) {
	in := line("jit", 7, "100.000001", "sys_futex -> 0x0") + line("jit", 7, "100.000002", "<user stack trace>") +
		" =>  <00007ffd5a7fe123>\n =>  <00007f0000001234>\n =>  <00007f0000005678>\n =>  <00007f0000009abc>\n =>  <00007f000000def0>\n"
	vdso := resolve.Attribution{Reason: filemap.VDSO, Memory: &filemap.Memory{Name: "[vdso]"}, Offset: 0x123, HasOffset: true}
	attributor := fixedAttributions{
		vdso,
		{Reason: filemap.Anonymous, Memory: &filemap.Memory{Name: "[anon:jit\n code]"}},
		{File: &filemap.File{Path: "/opt/a b"}, Trust: filemap.Late, Offset: 0x5678, HasOffset: true},
		resolve.Unnamed(filemap.NotCode),
		{Reason: filemap.VMAOffset, Memory: &filemap.Memory{Name: "/opt/a\nb[+0x1]"}, Offset: 0xef0, HasOffset: true},
	}
	want := line("jit", 7, "100.000001", "sys_futex -> 0x0") + line("jit", 7, "100.000002", "<user stack trace>") +
		" =>  <0000000000000123> : [vdso] (unresolved: vdso)\n" +
		" =>  <00007f0000001234> : [anon:jit\\012 code] (unresolved: anonymous)\n" +
		" =>  <0000000000005678> (late) : path=/opt/a b\n" +
		" =>  <00007f0000009abc> (unresolved: not-code)\n" +
		" => /opt/a\\012b[+0x1][+0xef0] <00007f000000def0> (unresolved: vma-offset)\n"
	got := replayed(t, options{attributor: attributor}, in)
	if got != want {
		t.Errorf("text is\n%swant\n%s", got, want)
	}
	if again := replayed(t, options{}, got); again != got {
		t.Errorf("and again\n%s", again)
	}
	stack, err := json.Marshal(jsonLines(t, replayed(t, options{json: true, attributor: attributor}, in))[1]["stack"])
	if err != nil {
		t.Fatal(err)
	}
	const wantJSON = `[{"address":"0x7ffd5a7fe123","memory":"[vdso]","offset":"0x123","reason":"vdso"},` +
		`{"address":"0x7f0000001234","memory":"[anon:jit\n code]","reason":"anonymous"},` +
		`{"address":"0x7f0000005678","offset":"0x5678","path":"/opt/a b","trust":"late"},` +
		`{"address":"0x7f0000009abc","reason":"not-code"},` +
		`{"address":"0x7f000000def0","reason":"vma-offset","text":"/opt/a\nb[+0x1][+0xef0]","vma_offset":"0xef0"}]`
	if string(stack) != wantJSON {
		t.Errorf("JSON is\n%s\nwant\n%s", stack, wantJSON)
	}
}
