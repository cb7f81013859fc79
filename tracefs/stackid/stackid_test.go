package stackid

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/stackid/stackidtest"
)

// capture is a trace with 817 kernel stacks.
const capture = "../../testdata/captures/hash/kstack/trace.txt.zst"

// expand reads a trace with a map, which must fit.
func expand(t testing.TB, trace, stackMap []byte) string {
	t.Helper()
	m, err := Read(iotest.HalfReader(bytes.NewReader(stackMap)), Count(bytes.NewReader(trace)))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Fits(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(NewReader(iotest.HalfReader(bytes.NewReader(trace)), m))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestCapture: a real trace, with numbers in place of its kernel stacks, is the same again.
func TestCapture(t *testing.T) {
	whole := capturetest.Read(t, capture)
	trace, stacks := stackidtest.Number(whole)
	if len(stacks) < 40 || bytes.Count(trace, []byte("<stack_id ")) != 817 {
		t.Fatalf("%d stacks", len(stacks))
	}
	if got := expand(t, trace, stackidtest.Text(stacks)); got != string(whole) {
		t.Errorf("%d bytes, not the %d of the trace", len(got), len(whole))
	}
	// An ID more often than recorded, and a stack that is missing.
	for name, change := range map[string]func(*stackidtest.Stack){
		"fewer":   func(s *stackidtest.Stack) { s.Refs-- },
		"another": func(s *stackidtest.Stack) { s.ID = 1 << 18 },
	} {
		changed := append([]stackidtest.Stack(nil), stacks...)
		change(&changed[3])
		m, err := Read(bytes.NewReader(stackidtest.Text(changed)), Count(bytes.NewReader(trace)))
		if err != nil || m.Fits() == nil {
			t.Errorf("%s: %v, no error", name, err)
		}
	}
}

// TestBinary: addresses, in both byte orders and both versions.
func TestBinary(t *testing.T) {
	const trace = "              sh-12      [000] .....     1.000001: <stack_id 7>\n"
	const want = "              sh-12      [000] .....     1.000001: <stack trace>\n" +
		" => 0xffffffff81234567\n => [FTRACE TRAMPOLINE]\n => 0x00000001\n"
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, head := range [][2]uint32{{magic, version}, {formerMagic, formerVersion}} {
			var b []byte
			for _, v := range []uint32{head[0], head[1], 2, 0, 3, 0, 9, 0, 7, 3, 1, 0} {
				b = order.AppendUint32(b, v)
			}
			for _, v := range []uint64{0xffffffff81234567, trampoline, 1} {
				b = order.AppendUint64(b, v)
			}
			if got := expand(t, []byte(trace), b); got != want {
				t.Errorf("got %s", got)
			}
			for n := range b {
				if n == 0 { // an empty text
					continue
				}
				if _, err := Read(bytes.NewReader(b[:n]), Uses{7: 1}); !errors.Is(err, ErrFormat) {
					t.Errorf("%d bytes of it: %v", n, err)
				}
			}
		}
	}
}

// TestUnharmed: what is no number of a stack stays as it is.
func TestUnharmed(t *testing.T) {
	const head = "              sh-12      [000] .....     1.000001: "
	m, err := Read(strings.NewReader("stack_id 1 [ref 2147483647, depth 1]\n  [0] f\n"), Uses{1: 1, 2: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		head + "tracing_mark_write: <stack_id 1>\n",
		head + "tracing_mark_write: 1.000001: <stack_id 1>\n",
		head + "<stack_id 2>\n", head + "<stack_id 1> \n", head + "<stack_id 01x>\n", head + "<stack_id -1>\n",
		"<stack_id 1>\n", " => <stack_id 1>\n", head + "<stack_id 4294967297>\n", head + "<stack_id 1",
		head + strings.Repeat("x", longestLine) + "<stack_id 1>\n",
		strings.Repeat(" ", longestLine) + head + "<stack_id 1>\n",
		"", "\n", "no line feed",
	} {
		got, err := io.ReadAll(NewReader(strings.NewReader(line), m))
		if err != nil || string(got) != line {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	got, err := io.ReadAll(NewReader(strings.NewReader(head+"<stack_id 1>"), m))
	if want := head + "<stack trace>\n => f\n"; err != nil || string(got) != want {
		t.Errorf("without a line feed: %q, %v", got, err)
	}
}

// TestBad: errors say where.
func TestBad(t *testing.T) {
	const first = "stack_id 1 [ref 1, depth 1]\n  [0] f\n\n"
	for _, bad := range []string{
		"x\n", "stack_id 1 [ref 1, depth 65]\n", "stack_id 524288 [ref 1, depth 0]\n", first[:30], first[:len(first)-3],
		"stack_id 1 [ref 1, depth 1]\n  [1] f\n", "stack_id 1 [ref 1, depth 1]\n  [0] \x1b[2J\n",
		"stack_id 1 [ref 1, depth 1]\n  [0] " + strings.Repeat("f", maxFrame+1) + "\n", first,
		"stack_id 2 [ref 1, depth 1] \n", "stack_id 2 [ref 1]\n", strings.Repeat("x", 1<<17) + "\n",
	} {
		_, err := Read(strings.NewReader(first+bad), Uses{1: 1})
		if !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%.80q: %v", bad, err)
		}
	}
	if _, err := Read(iotest.ErrReader(io.ErrNoProgress), nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a map that cannot be read: %v", err)
	}
}

func FuzzMap(f *testing.F) {
	f.Add([]byte("stack_id 1 [ref 1, depth 1]\n  [0] f\n\n"))
	f.Add(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, version<<32|magic), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Read(bytes.NewReader(b), Uses{1: 1, 7: 2})
		if err != nil {
			return
		}
		const trace = "              sh-12      [000] .....     1.000001: <stack_id 7>\n"
		out, err := io.ReadAll(NewReader(strings.NewReader(trace), m))
		if err != nil || m.Fits() == nil && len(m.stacks) != 2 {
			t.Fatal(fmt.Sprint(len(m.stacks), err))
		}
		if bytes.ContainsFunc(out, func(c rune) bool { return c > '~' || c < ' ' && c != '\n' }) {
			t.Fatalf("%q", out)
		}
	})
}
