package stackmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// capture is a stack map of Linux 7.3 with two stacks of 16 entries: the bytes, and what they
// mean by the program that made it.
const capture = "../../testdata/captures/bpf-stackmap/"

// captured returns the elements of the capture: records of a stack ID and a value.
func captured(t testing.TB) (list []Element) {
	t.Helper()
	b, err := os.ReadFile(capture + "stackmap.bin")
	if err != nil {
		t.Fatal(err)
	}
	const size = 4 + 16*entrySize
	for ; len(b) >= size; b = b[size:] {
		list = append(list, Element{b[:4], [][]byte{b[4:size]}})
	}
	return list
}

// dumpOf writes elements as bpftool does.
func dumpOf(list []Element, pretty bool) string {
	array := func(b []byte) string {
		var words []string
		for _, c := range b {
			words = append(words, fmt.Sprintf("%q", fmt.Sprintf("0x%02x", c)))
		}
		return "[" + strings.Join(words, ",") + "]"
	}
	var objects []string
	for i := range list {
		value := fmt.Sprintf(`"value":%s`, array(list[i].Values[0]))
		if len(list[i].Values) > 1 {
			var cpus []string
			for cpu, v := range list[i].Values {
				cpus = append(cpus, fmt.Sprintf(`{"cpu":%d,"value":%s}`, cpu, array(v)))
			}
			value = `"values":[` + strings.Join(cpus, ",") + "]"
		}
		objects = append(objects, fmt.Sprintf(`{"key":%s,%s,"formatted":{"key":[{"a":"]}"}],"value":-1}}`, array(list[i].Key), value))
	}
	out := "[" + strings.Join(objects, ",") + "]\n"
	if pretty {
		out = strings.NewReplacer("{", "{\n    ", "}", "\n}", ",\"", ",\n\t\"", "[{", "[ {").Replace(out)
	}
	return out
}

// listed gives the elements of a list.
type listed struct {
	list []Element
	gone int64
}

func (l *listed) Gone() int64 { return l.gone }

func (l *listed) Next() (*Element, error) {
	if len(l.list) == 0 {
		return nil, io.EOF
	}
	e := &l.list[0]
	l.list = l.list[1:]
	return e, nil
}

// truth returns the text that the capture is, by its own list.
func truth(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(capture + "stackmap.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case f[0] == "stack":
			fmt.Fprintf(&out, "@[%s]:\n", f[1])
		case f[0] == "status":
			fmt.Fprintf(&out, "    %s %s\n", f[3], f[5])
		}
	}
	return out.String()
}

// TestCapture: the entries of the capture are those of its list, in a dump of any layout and in
// any pieces.
func TestCapture(t *testing.T) {
	want := truth(t)
	if strings.Count(want, "\n") != 12 {
		t.Fatalf("two stacks of five frames are %q", want)
	}
	for _, pretty := range []bool{false, true} {
		dump := dumpOf(captured(t), pretty)
		if !Is([]byte(dump[:4])) {
			t.Errorf("%q is not known", dump[:4])
		}
		for _, r := range []io.Reader{strings.NewReader(dump), iotest.OneByteReader(strings.NewReader(dump))} {
			got, err := io.ReadAll(iotest.OneByteReader(NewText(NewDump(r), nil)))
			if err != nil || string(got) != want {
				t.Errorf("pretty %v: %v, %s", pretty, err, got)
			}
		}
	}
}

// TestBpftool: a dump that bpftool 7.1 has written, of a hash map with keys of eight bytes and
// of a stack map, of Linux 6.18.
func TestBpftool(t *testing.T) {
	f, err := os.Open("testdata/count.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counts, err := ReadCounts(NewDump(f), 0)
	if err != nil || len(counts) != 3 || counts[0x158] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
	s, err := os.Open("testdata/stack.json")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := io.ReadAll(NewText(NewDump(s), counts))
	const want = "@[4]:\n    93ac61ec5a8eb1396f9fbd350e3169a558528a40 0x8e07e\n    0xd8ec81485355\n@[10]:\n"
	if err != nil || !strings.HasPrefix(string(got), want) || strings.Count(string(got), "@[") != 3 {
		t.Errorf("%s, %v", got, err)
	}
}

// TestCounts: values are added up by stack ID, of whatever CPU and key, and stacks get them.
func TestCounts(t *testing.T) {
	word := func(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
	long := func(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }
	in := []Element{
		{append(word(99), word(345)...), [][]byte{long(7), long(0), long(1)}},
		{append(word(98), word(345)...), [][]byte{long(1)}},
		{append(word(99), word(6)...), [][]byte{word(5)}},
		{append(word(97), word(7)...), [][]byte{long(1<<64 - 1), long(2)}},
	}
	counts, err := ReadCounts(NewDump(strings.NewReader(dumpOf(in, true))), 4)
	if err != nil || len(counts) != 3 || counts[345] != 9 || counts[6] != 5 || counts[7] != 1<<64-1 {
		t.Fatalf("%v, %v", counts, err)
	}
	text := NewText(&listed{captured(t), 2}, counts)
	got, err := io.ReadAll(text)
	if err != nil || !strings.HasPrefix(string(got), "@[345,\n") || !strings.Contains(string(got), "\n]: 9\n@[1371]:\n") {
		t.Errorf("%v, %s", err, got)
	}
	notes := strings.Join(text.Notes(), "; ")
	if notes != "2 stacks had gone when they were read, and are left out; 1 of 2 stacks have no count; 2 counts are of stacks that are not in the map" {
		t.Error(notes)
	}
	for at, elements := range map[int][]Element{-1: in, 5: in, 1 << 62: in, 0: {{word(1), [][]byte{{1, 2, 3}}}}} {
		if counts, err := ReadCounts(&listed{list: elements}, at); !errors.Is(err, ErrFormat) {
			t.Errorf("byte %d: %v, %v", at, counts, err)
		}
	}
}

// TestCut: of a dump that ends too early, or is damaged, all elements before that are read, and
// the error has the byte.
func TestCut(t *testing.T) {
	list := append(captured(t), captured(t)...)
	dump := dumpOf(list, false)
	each := strings.Count(truth(t), "\n") / 2 * len(list)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := rng.IntN(len(dump) - 2)
		whole := strings.Count(dump[:n], "}}")
		got, err := io.ReadAll(NewText(NewDump(strings.NewReader(dump[:n])), nil))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("byte %d of the dump", n)) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if lines := strings.Count(string(got), "\n"); lines != whole*each/len(list) {
			t.Fatalf("cut at %d after %d elements: %d lines", n, whole, lines)
		}
	}
}

// TestBad: what is no stack map with build IDs is an error, and elements that had gone are
// counted.
func TestBad(t *testing.T) {
	for dump, want := range map[string]string{
		`[]`: "", `[ ]`: "", `{}`: "unexpected", `[1]`: "unexpected", `[{"key":"0x1","value":[]}]`: "unexpected",
		`[{"key":["0x1","0x0","0x0","0x0"],"value":["0x01"]}]`:                      "a value of 1 bytes",
		`[{"key":["0x1","0x0","0x0","0x0"],"value":[]}]`:                            "a value of 0 bytes",
		`[{"key":["0x1"],"value":["0x01"]}]`:                                        "a key of 1 bytes",
		`[{"key":["0x1","0x0","0x0","0x0"],"value":["0x100"]}]`:                     "not a byte",
		`[{"key":["0x1","0x0","0x0","0x0"]}]`:                                       "without key and value",
		`[{"key":["0x1","0x0","0x0","0x0"],"value":{"error":"No such file"}}]`:      "",
		`[{"key":[` + strings.Repeat(`"0x00",`, maxElement) + `"0x0"],"value":[]}]`: "of more than",
		`[{"x":` + strings.Repeat("[", 1<<20) + `]`:                                 "ends too early",
		`[{"x":"` + strings.Repeat("\\\"", 1<<20) + `"}]`:                           "without key and value",
	} {
		d := NewDump(strings.NewReader(dump))
		got, err := io.ReadAll(NewText(d, nil))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) || len(got) > 0 {
			t.Errorf("%.60s: %q, %v, want %q", dump, got, err, want)
		}
		if gone := strings.Count(dump, "No such file"); d.Gone() != int64(gone) {
			t.Errorf("%.60s: %d gone", dump, d.Gone())
		}
	}
	status := append([]byte(nil), captured(t)[0].Values[0]...)
	status[0] = 3
	if got, err := io.ReadAll(NewText(&listed{list: []Element{{make([]byte, 4), [][]byte{status}}}}, nil)); !errors.Is(err, ErrFormat) || len(got) > 0 {
		t.Errorf("status 3: %q, %v", got, err)
	}
}

// FuzzDump: no dump panics or is read beyond its end, and pieces do not matter.
func FuzzDump(f *testing.F) {
	f.Add([]byte(dumpOf(captured(f), false)))
	f.Add([]byte(dumpOf([]Element{{[]byte{1, 2, 3, 4}, [][]byte{{1}, {2}}}}, true)))
	f.Add([]byte(`[{"key":["0x1","0x0","0x0","0x0"],"value":{"error":"x"}},{"values":[{"cpu":0,"value":[]}]}]`))
	f.Fuzz(func(t *testing.T, dump []byte) {
		read := func(r io.Reader) (n int, words string) {
			d := NewDump(r)
			for {
				e, err := d.Next()
				if err != nil {
					return n, words + err.Error()
				}
				n++
				words += fmt.Sprintf("%x %x\n", e.Key, e.Values)
			}
		}
		n, words := read(bytes.NewReader(dump))
		if m, again := read(iotest.OneByteReader(bytes.NewReader(dump))); m != n || again != words {
			t.Fatalf("%s\nthen\n%s", words, again)
		}
		if n > len(dump) {
			t.Fatalf("%d elements of %d bytes", n, len(dump))
		}
	})
}
