package render

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"ustack/tracefs/escape"
)

// quoted is a string as encoding/json writes it.
func quoted(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plainByte reports whether encoding/json writes a byte as it is.
func plainByte(t testing.TB) (plain [256]bool) {
	t.Helper()
	for c := range plain {
		s := string([]byte{byte(c)})
		plain[c] = quoted(t, s) == `"`+s+`"`
	}
	return plain
}

// TestPlainWord: eight bytes are plain if each of them is, whatever stands
// beside it. Two at a time are enough to see one disturb another.
func TestPlainWord(t *testing.T) {
	plain := plainByte(t)
	for p := range 8 {
		for q := p + 1; q < 8; q++ {
			for c := range 256 {
				for d := range 256 {
					word := [8]byte{'a', '#', '!', 'Z', '[', ']', '~', ' '}
					word[p], word[q] = byte(c), byte(d)
					if got := plainWord(binary.LittleEndian.Uint64(word[:])); got && (!plain[c] || !plain[d]) {
						t.Fatalf("plainWord(%q) = true", word)
					} else if !got && plain[c] && plain[d] && c != 0x7f && d != 0x7f {
						t.Fatalf("plainWord(%q) = false", word)
					}
				}
			}
		}
	}
}

// TestEscapedAnywhere: how a byte is written does not depend on its place.
func TestEscapedAnywhere(t *testing.T) {
	for c := range 256 {
		alone := string(appendEscaped(nil, []byte{byte(c)}))
		for before := range 17 {
			for after := range 17 {
				in := strings.Repeat("x", before) + string([]byte{byte(c)}) + strings.Repeat("y", after)
				got := string(appendEscaped([]byte("kept"), []byte(in)))
				if want := "kept" + strings.Repeat("x", before) + alone + strings.Repeat("y", after); got != want {
					t.Errorf("byte %#x after %d and before %d others is %q, want %q", c, before, after, got, want)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// jsonTexts are texts that are hard to write as JSON.
var jsonTexts = []string{
	"", "plain", "a longer plain text, of many words", `"`, `\`, `\"`, "\x00\x01\x1f\x7f", "\b\f\n\r\t", "\u2028\u2029", "\u0080\u009f\u00a0",
	"\u202e\u2066\u200f\u061c", "é日本😀", "\xff", "a\xffb\xc3", "\xed\xa0\x80", "\xc0\xaf", "\ufffd", "</script>&'",
	"eight by\"teight by\\teight by\nt", strings.Repeat("\x80", 20),
}

// TestJSONText: encoding/json reads what appendText writes, and what is not
// UTF-8 can be had in hexadecimal.
func TestJSONText(t *testing.T) {
	for _, s := range jsonTexts {
		jsonText(t, s)
	}
}

func FuzzJSONText(f *testing.F) {
	for _, s := range jsonTexts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { jsonText(t, s) })
}

func jsonText(t *testing.T, s string) {
	t.Helper()
	line := `{"a":1` + string(appendText(nil, "key", []byte(s))) + "}"
	var got struct {
		Key string  `json:"key"`
		Hex *string `json:"key_hex"`
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("%q became %q: %v", s, line, err)
	}
	for _, r := range line {
		if escape.Acts(r) {
			t.Errorf("%q became %q, which has %U", s, line, r)
		}
	}
	if want := string([]rune(s)); got.Key != want {
		t.Errorf("%q became %q", s, got.Key)
	}
	if got.Hex == nil {
		if !utf8.ValidString(s) {
			t.Errorf("%q is no UTF-8, and has no hexadecimal form", s)
		}
		return
	}
	if raw, err := hex.DecodeString(*got.Hex); err != nil || string(raw) != s || utf8.ValidString(s) {
		t.Errorf("%q has the hexadecimal form %q", s, *got.Hex)
	}
}

// jsonLines reads lines of JSON; each must be an object with a type.
func jsonLines(t *testing.T, out string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if kind, ok := v["type"].(string); !ok || kind == "" {
			t.Fatalf("%q has no type", line)
		}
		list = append(list, v)
	}
	return list
}

// kinds are the types of lines, header and totals left out.
func kinds(list []map[string]any) string {
	var words []string
	for _, v := range list[1 : len(list)-1] {
		words = append(words, fmt.Sprint(v["type"]))
	}
	return strings.Join(words, " ")
}

// TestJSON is all kinds of lines, from the documentation's point of view:
// which keys, which values.
func TestJSON(t *testing.T) {
	in := line("cat", 7, "100.000001", `sys_futex(uaddr: 0x1, op: 0x80)`) +
		line("cat", 7, "100.000001", "cookie=300000002") +
		line("cat", 7, "100.000002", "<user stack unwind>") + "cookie=300000002\n" +
		" =>  <0000000000001234> : 0x1\n =>  <0000000000000fff> : 0x0\n =>  <00007ffd5a7fe000> : 0x0\n =>  <ffffffffff600007> : 0xffffffff\n =>  <0000000000005678> : 0x2\n" +
		line("cat", 7, "100.000003", "file_map: hash=0x1 path=/opt/a\"b build_id={0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253}") +
		"CPU:1 [LOST 3 EVENTS]\n" +
		line("c\xfft", 8, "100.000004", "tracing_mark_write: \x1b[31m")
	list := jsonLines(t, replayed(t, options{json: true}, in))
	if got, want := kinds(list), "event file_map lost event"; got != want {
		t.Fatalf("lines %s, want %s", got, want)
	}
	event := list[1]
	for key, want := range map[string]string{
		"ts": "100.000001", "cpu": "1", "pid": "7", "comm": "cat", "flags": ".....", "name": "sys_enter_futex",
		"args": "uaddr: 0x1, op: 0x80", "cookie": "0x300000002",
	} {
		if got := fmt.Sprint(event[key]); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	stack, err := json.Marshal(event["stack"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"build_id":"b6e5d9c258e911b2e478f8dedf22400e53225509","offset":"0x1234","path":"/opt/a\"b","trust":"announced"},` +
		`{"offset":"0xfff","reason":"vdso"},{"address":"0x7ffd5a7fe000","reason":"anonymous"},` +
		`{"address":"0xffffffffff600007","reason":"no-vma"},{"identifier":"0x2","offset":"0x5678","reason":"lost"}]`
	if string(stack) != want {
		t.Errorf("stack\n got %s\nwant %s", stack, want)
	}
	if odd := list[4]; odd["comm"] != "c\ufffdt" || odd["comm_hex"] != "63ff74" || odd["args"] != "\x1b[31m" {
		t.Errorf("the odd event is %v", odd)
	}
	if head := list[0]; head["schema"] != jsonSchema || head["dialect"] != "hash" {
		t.Errorf("the header is %v", head)
	}
	if totals := list[len(list)-1]; totals["type"] != "totals" || fmt.Sprint(totals["frames"]) != "5" {
		t.Errorf("the totals are %v", totals)
	}
}

// TestJSONOfForgedHeaders: lines of free text that look like headers, as any
// task can write into a trace_marker, make no line that is not JSON.
func TestJSONOfForgedHeaders(t *testing.T) {
	usual := strings.Repeat(line("cat", 7, "100.000001", "sys_futex(uaddr: 0x1, op: 0x80, val: 5, utime: 0x0)"), 3)
	for _, forged := range []string{
		"             cat-7       [001] .....   \"}1.000001: x\n",
		"             cat-7       [001] ...\\\" 100.000001: x\n",
		"             cat-7       [001] .....\n 100.000001: x\n",
		"             c\"t-7       [001] ..... 100.000001: x\n",
		"             cat-7       [001] ..... \x1b\x00\xff.000001: x\n",
	} {
		out := replayed(t, options{json: true}, usual+forged+usual+usual)
		for l := range strings.Lines(out) {
			if !json.Valid([]byte(l)) {
				t.Errorf("%q makes %q", forged, l)
			}
		}
	}
}

// TestJSONPauses: a pause between two records leaves no trace in the output.
func TestJSONPauses(t *testing.T) {
	stack := line("cat", 7, "100.000002", "<user stack unwind>") + "cookie=300000002\n =>  <0000000000001234> : 0x1\n"
	pieces := []string{
		line("cat", 7, "100.000000", "ev: x") + stack,
		line("cat", 7, "100.000003", "sched_switch: x") + line("cat", 7, "100.000003", "cookie=500000002"),
		strings.ReplaceAll(stack, "300000002", "500000002"),
		line("cat", 7, "100.000006", "file_map: hash=0x1 path=/a"),
		"CPU:1 [LOST 3 EVENTS]\n",
		line("cat", 7, "100.000007", "tracing_mark_write: x"),
	}
	whole := jsonLines(t, replayed(t, options{json: true}, strings.Join(pieces, "")))
	paused := jsonLines(t, replayed(t, options{json: true, pauses: true}, pieces...))
	if got, want := kinds(paused), "event stack event stack file_map lost event"; got != want {
		t.Errorf("lines %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(paused[len(paused)-1]["stacks"]), fmt.Sprint(whole[len(whole)-1]["stacks"]); got != want {
		t.Errorf("%s stacks, want %s", got, want)
	}
}

// TestJSONHeaderWaits: a pause before the first stack leaves the header as it is.
func TestJSONHeaderWaits(t *testing.T) {
	event := line("cat", 7, "100.000000", "ev: x")
	stack := line("cat", 7, "100.000002", "<user stack unwind>") + "cookie=300000002\n =>  <0000000000001234> : 0x1\n"
	for _, pieces := range [][]string{{event, event, stack, event}, {event, event}} {
		whole := replayed(t, options{json: true}, strings.Join(pieces, ""))
		paused := replayed(t, options{json: true, pauses: true}, pieces...)
		want, _, _ := strings.Cut(whole, "\n")
		if got, _, _ := strings.Cut(paused, "\n"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestJSONWriteError(t *testing.T) {
	j := NewJSON(&broken{}, nil, 0)
	if err := j.Close(someTotals()); err == nil {
		t.Error("no error")
	}
}
