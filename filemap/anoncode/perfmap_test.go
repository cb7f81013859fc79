package anoncode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ustack/tracefs"
)

func parse(t testing.TB, text string) *perfMap {
	t.Helper()
	m := new(perfMap)
	if n, ok := m.add([]byte(text)); !ok || n != strings.LastIndexByte(text, '\n')+1 {
		t.Fatalf("%d of %d bytes taken, %v", n, len(text), ok)
	}
	m.done(0, 0)
	return m
}

// name is the name and offset of an address, "-" if it has none.
func (m *perfMap) string(addr uint64, ran bool) string { return m.stringAt(addr, ran, 0) }

func (m *perfMap) stringAt(addr uint64, ran bool, t tracefs.Time) string {
	c := m.code(addr, ran, t, nil)
	if c == nil {
		return "-"
	}
	return fmt.Sprintf("%s+%#x", c.Function, addr-c.Start)
}

func TestPerfMap(t *testing.T) {
	m := parse(t, "1000 100 alpha\n"+
		"1100 80 LazyCompile:*b c /x y.js:3:1\n"+
		"7FFFFFFFFFFFF000 1000 last\n"+
		"1080 10 inner\n"+
		"2000 0 empty\n"+
		"3000 10 old\n3000 10 new\n"+
		"4000 20 cut")
	for _, c := range []struct {
		addr uint64
		ran  bool
		want string
	}{
		{0xfff, true, "-"}, {0x1000, true, "alpha+0x0"}, {0x107f, true, "alpha+0x7f"}, {0x1080, true, "inner+0x0"},
		{0x108f, true, "inner+0xf"}, {0x1090, true, "alpha+0x90"}, {0x10ff, true, "alpha+0xff"},
		{0x1100, true, "LazyCompile:*b c /x y.js:3:1+0x0"}, {0x117f, true, "LazyCompile:*b c /x y.js:3:1+0x7f"}, {0x1180, true, "-"},
		{0x2000, true, "-"}, {0x3008, true, "new+0x8"}, {0x4001, true, "-"}, {1<<63 - 1, true, "last+0xfff"}, {0, true, "-"},
		// Return addresses are after the call, which may be the last instruction of
		// a function; where another function begins, the caller is not sure.
		{0, false, "-"}, {0x1000, false, "-"}, {0x1001, false, "alpha+0x1"}, {0x1100, false, "-"}, {0x1080, false, "-"}, {0x1090, false, "-"},
		{0x1180, false, "LazyCompile:*b c /x y.js:3:1+0x80"}, {1 << 63, false, "last+0x1000"}, {0x3010, false, "new+0x10"}, {0x3011, false, "-"},
	} {
		if got := m.string(c.addr, c.ran); got != c.want {
			t.Errorf("%#x, ran %v: %s, want %s", c.addr, c.ran, got, c.want)
		}
	}
	if a, b := m.code(0x1001, true, 0, nil), m.code(0x1002, true, 0, nil); a != b {
		t.Error("one function is two")
	}
}

// TestPerfMapBad: malformed lines are skipped and counted.
func TestPerfMapBad(t *testing.T) {
	for _, line := range []string{"", " ", "1000", "1000 ", "1000 10", "1000 10 ", "10 00 ", " 1000 10 a", "0x1000 10 a", "1000 0x10 a", "1000  10 a",
		"g000 10 a", "1000 1g a", "-1000 10 a", "10000000000000000 1 a", "ffffffffffffffff 2 a", "1000\t10\ta", "1000 10 " + strings.Repeat("x", maxName+1)} {
		m := parse(t, "500 10 before\n"+line+"\n600 10 after\n")
		if m.bad != 1 || m.first != 2 || m.string(0x501, true) != "before+0x1" || m.string(0x601, true) != "after+0x1" || m.count != 2 {
			t.Errorf("%q: %d bad, first %d, %d good", line, m.bad, m.first, m.count)
		}
	}
}

// plain is the rule itself: of the entries that hold an address, the last one.
func plain(list []entry, addr uint64) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].start <= addr && addr < list[i].end {
			return i
		}
	}
	return -1
}

// TestPerfMapRandom holds lookups against the plain rule, whatever parts a map
// comes in.
func TestPerfMapRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		m := new(perfMap)
		var list []entry
		var text []byte
		for i := range 1 + random.IntN(60) {
			e := entry{start: uint64(random.IntN(200))}
			e.end = e.start + uint64(random.IntN(40))
			list = append(list, e)
			text = fmt.Appendf(text, "%x %x f%d\n", e.start, e.end-e.start, i)
			if random.IntN(3) == 0 {
				cut := random.IntN(len(text) + 1)
				n, ok := m.add(text[:cut])
				if !ok {
					t.Fatal("not taken")
				}
				text = text[n:]
			}
		}
		if n, ok := m.add(text); !ok || n != len(text) {
			t.Fatalf("%d of %d taken", n, len(text))
		}
		m.done(0, 0)
		if len(m.batches) > 12 {
			t.Errorf("%d batches of %d entries", len(m.batches), m.count)
		}
		for addr := range uint64(250) {
			want := "-"
			if i := plain(list, addr); i >= 0 {
				want = fmt.Sprintf("f%d+%#x", i, addr-list[i].start)
			}
			if got := m.string(addr, true); got != want {
				t.Fatalf("%v at %d: %s, want %s", list, addr, got, want)
			}
		}
	}
}

// TestPerfMapMany: more than a program has are not kept.
func TestPerfMapMany(t *testing.T) {
	line := []byte("1000 10 x\n")
	m := new(perfMap)
	half := bytes.Repeat(line, maxEntries/2)
	for range 2 {
		if _, ok := m.add(half); !ok {
			t.Fatal("not taken")
		}
	}
	if _, ok := m.add(line); ok {
		t.Error("too many are taken")
	}
}

// FuzzPerfMap: any text is taken up to its last line feed, in one piece or two,
// and what it names are its own words. What a place was before the reading can be
// unknown in one piece and known in two, but has no other name.
func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("1000 100 alpha\n1080 10 inner\nnonsense\nffffffffffffffff 1 x\n"), 20, uint64(0x1085))
	f.Add([]byte("3ef414c0 398 LazyCompile:~foo bar.js:1\n3ef41858 1 \n"), 3, uint64(0x3ef414c0))
	f.Add([]byte("\x10000 100 a\n1000 100 \xff\x1b[2J\n"), 0, uint64(0x1000))
	f.Fuzz(func(t *testing.T, text []byte, cut int, addr uint64) {
		whole, parts := new(perfMap), new(perfMap)
		n, ok := whole.add(text)
		if want := bytes.LastIndexByte(text, '\n') + 1; !ok || n != want {
			t.Fatalf("%d taken of %d, %v", n, want, ok)
		}
		cut = min(max(cut, 0), len(text))
		k, _ := parts.add(text[:cut])
		parts.add(text[k:])
		whole.done(0, 1)
		parts.done(0, 1)
		for _, ran := range []bool{true, false} {
			c, want := whole.code(addr, ran, 1, nil), whole.stringAt(addr, ran, 1)
			if got := parts.stringAt(addr, ran, 1); got != want {
				t.Errorf("in parts %s, as a whole %s", got, want)
			}
			for _, m := range []*perfMap{whole, parts} {
				if got := m.stringAt(addr, ran, 0); got != "-" && got != want {
					t.Errorf("before the reading %s, after it %s", got, want)
				}
			}
			if c == nil {
				continue
			}
			if c.Start > addr || !bytes.Contains(text, []byte(" "+c.Function+"\n")) {
				t.Errorf("%#x is %+v", addr, c)
			}
		}
	})
}

func BenchmarkPerfMap(b *testing.B) {
	var text []byte
	for i := range 100_000 {
		text = fmt.Appendf(text, "%x %x LazyCompile:*function%d /path/of/a/file.js:%d:1\n", 0x7f0000000000+i*0x180, 0x140, i, i)
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			new(perfMap).add(text)
		}
	})
	m := parse(b, string(text))
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			m.code(0x7f0000000000+50_000*0x180+16, true, 0, nil)
		}
	})
}
