package text

import (
	"errors"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// refused are traces in layouts that have lost what is needed, each as a
// kernel wrote it with that option, and what the error must name.
var refused = []struct{ name, text, option string }{
	{"raw", "1282 0 1173590424272 type: 13\n1282 0 1173590424300 type: 12\n", "options/raw"},
	{"hex", "6b020000 00000000 1234abcd 0badcafe 05000000\n", "options/hex"},
	{"bin", "\x05\x00\x00\x01\x5f\x1d\x00\x00abc\x01\x02\x03\x04\x05\n", "options/bin"},
	{"nocontext-info", "sys_futex(uaddr: 0x55ded87d003c, op: 0x80, val: 5)\nsys_futex -> 0x0\n", "options/context-info"},
	{"nocontext-info, stack first", "<user stack trace>\n =>  <00007ff49fdce829>\n", "options/context-info"},
	{
		"fields", columnsLine("a b-7 c: [x]", 1282, "[000] .....  1173.590428: sys_exit_futex: __syscall_nr=0xca (202) ret=0xfffffffffffffff5 (-11)\n") +
			columnsLine("a b-7 c: [x]", 1282, "[000] .....  1173.590430: UNKNOWN TYPE 13\n"), "options/fields",
	},
}

// TestRefused: the error is one line that names the option to switch off.
func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			got := scanPieces(t, NewScanner(), []byte(c.text))
			if !errors.Is(got.err, ErrLayout) || !strings.Contains(got.err.Error(), c.option) || strings.Contains(got.err.Error(), "\n") {
				t.Errorf("error %v, want one line with %s", got.err, c.option)
			}
		})
	}
}

// TestRefusedInPieces: it does not matter how the text comes in, be it in
// pieces so small that its beginning is looked at many times.
func TestRefusedInPieces(t *testing.T) {
	text := "cpus=4\nsys_openat(dfd: 0x1, filename: 0x2 \"" + strings.Repeat("/long", 100) + "\")\n"
	for _, lengths := range [][]byte{nil, {255}, {0}} {
		if got := scanPieces(t, NewScanner(), cut(text, lengths)...); !errors.Is(got.err, ErrLayout) {
			t.Errorf("in pieces of %v: error %v", lengths, got.err)
		}
	}
}

// TestRefusedCapture is what a real kernel wrote with the option fields.
func TestRefusedCapture(t *testing.T) {
	for _, name := range []string{"hash/fields", "inode/fields", "stock/fields"} {
		text := string(capturetest.Read(t, "../../testdata/captures/"+name+"/trace.txt.zst"))
		got := scanPieces(t, NewScanner(), []byte(text))
		if !errors.Is(got.err, ErrLayout) || !strings.HasPrefix(text, got.text) {
			t.Errorf("%s: error %v", name, got.err)
		}
	}
}

// TestNotRefused has texts of usable traces that begin with something else
// than a header, or speak of options: no reason to refuse them.
func TestNotRefused(t *testing.T) {
	usual := strings.Repeat(columnsLine("cat", 7, "[000] .....     1.000001: sys_futex -> 0x0\n"), 3)
	for _, c := range []struct{ name, text string }{
		{"head of a trace file", "# tracer: nop\n#\n# entries-in-buffer/entries-written: 246/246   #P:2\n#\n" + usual},
		{"trace-cmd report", "cpus=4\n" + usual},
		{"loss", "CPU:0 [LOST 394 EVENTS]\n" + usual},
		{"blank lines", "\n\n" + usual},
		{"end of a frame", "0af> : 0x666220af\n" + usual},
		{"frames of a stack", " =>  <000000000008f687> : 0x666220af\n" + usual},
		{"cookie and frames of a stack", "cookie=300000008\n =>  <000000000008f687> : 0x666220af\n" + usual},
		{"end of an event", "x7f, op: 0x80, val: 5)\n" + usual},
		{"marker", columnsLine("cat", 7, "[000] .....     1.000001: tracing_mark_write: UNKNOWN TYPE 13\n") + usual},
		{"several lines of a marker", usual + "1282 0 1173590424272 type: 13\n<user stack trace>\n6b02 0000 1234 abcd\n"},
		{"event without printer", columnsLine("cat", 7, "[000] .....     1.000001: type: 13\n") + usual},
		{"unknown event", columnsLine("cat", 7, "[000] .....     1.000001: Unknown type 13\n") + usual},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := scanPieces(t, plainScanner(), []byte(c.text))
			if got.err != nil || got.text != c.text {
				t.Errorf("%d of %d bytes, error %v", len(got.text), len(c.text), got.err)
			}
		})
	}
}
