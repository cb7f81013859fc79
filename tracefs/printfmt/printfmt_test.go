package printfmt

import (
	"encoding/binary"
	"errors"
	"testing"

	"ustack/tracefs/format"
)

// event has a field of every kind, and sample a record of it.
func event(printFmt string) *format.Event {
	return &format.Event{
		Name: "sample", ID: 1, PrintFmt: printFmt, Size: 92,
		Common: []format.Field{{Type: "unsigned char", Name: "common_flags", Offset: 2, Size: 1}},
		Fields: []format.Field{
			{Type: "u32", Name: "u", Offset: 8, Size: 4},
			{Type: "int", Name: "i", Offset: 12, Size: 4, Signed: true},
			{Type: "long", Name: "l", Offset: 16, Size: 8, Signed: true},
			{Type: "char", Name: "comm", Offset: 24, Size: 8, Len: 8, Array: true},
			{Type: "u32", Name: "words", Offset: 32, Size: 12, Len: 3, Array: true},
			{Type: "u8", Name: "b", Offset: 44, Size: 1},
			{Type: "s8", Name: "sb", Offset: 45, Size: 1, Signed: true},
			{Type: "u16", Name: "h", Offset: 46, Size: 2},
			{Type: "char", Name: "name", Offset: 48, Size: 4, Array: true, Loc: format.DataLoc},
			{Type: "u16", Name: "list", Offset: 52, Size: 4, Array: true, Loc: format.RelLoc},
			{Type: "const char *", Name: "ptr", Offset: 56, Size: 8},
			{Type: "u8", Name: "id", Offset: 64, Size: 16, Len: 16, Array: true},
			{Type: "u8", Name: "sa", Offset: 80, Size: 8, Len: 8, Array: true},
			{Type: "unsigned long", Name: "mask", Offset: 88, Size: 4, Array: true, Loc: format.DataLoc},
		},
	}
}

func sample() []byte {
	b := make([]byte, 92)
	put := binary.LittleEndian
	b[2] = 0x10
	put.PutUint32(b[8:], 0xfffffff0)
	put.PutUint32(b[12:], 0xfffffffe) // -2
	put.PutUint64(b[16:], 0xfffffffffffffff5)
	copy(b[24:], "futex\x00zz")
	put.PutUint32(b[32:], 1)
	put.PutUint32(b[36:], 0xabc)
	put.PutUint32(b[40:], 0)
	b[44], b[45] = 200, 0xff
	put.PutUint16(b[46:], 0xbeef)
	put.PutUint32(b[48:], 92|6<<16)
	put.PutUint32(b[52:], (98-56)|4<<16)
	put.PutUint64(b[56:], 0xffffffff81000010)
	for i := range 16 {
		b[64+i] = byte(i * 17)
	}
	copy(b[80:], "\x02\x00\x1f\x90\x7f\x00\x00\x01")
	put.PutUint32(b[88:], 104|8<<16)
	b = append(b, "a b.c\x00\x05\x00\x06\x00\x00\x00"...)
	return append(b, 0x0f, 0, 0, 0, 1, 0, 0, 0)
}

func env() *Env {
	return &Env{Record: sample(), LongSize: 8,
		Symbol: func(b []byte, addr uint64, offset bool) ([]byte, bool) {
			if addr != 0xffffffff81000010 {
				return b, false
			}
			b = append(b, "_stext"...)
			if offset {
				b = append(b, "+0x10/0x20"...)
			}
			return b, true
		},
		String: func(addr uint64) (string, bool) { return "cpuqs", addr == 0xffffffff81000010 },
	}
}

func TestAppend(t *testing.T) {
	for _, x := range [...]struct{ fmt, want string }{
		// numbers (lib/vsprintf.c, lib/test_printf.c)
		{`"%d %u %x", REC->i, REC->u, REC->u`, "-2 4294967280 fffffff0"},
		{`"%ld 0x%lx %lld", REC->l, REC->l, REC->l`, "-11 0xfffffffffffffff5 -11"},
		{`"%u %hhd %hu", REC->i, REC->b, REC->u`, "4294967294 -56 65520"},
		{`"%5d|%-5d|%05d|%+d|% d", REC->i, REC->i, REC->i, 7, 7`, "   -2|-2   |-0002|+7| 7"},
		{`"%#x %#o %#x %08x %#010x %X", 255, 8, 0, 0xbeef, 0xbeef, 0xbeef`, "0xff 010 0x0 0000beef 0x0000beef BEEF"},
		{`"%.3d %8.3d|%-8.3x|", 5, 5, 5`, "005      005|005     |"},
		{`"%*d|%-*d|%c%c", 4, 7, 4, 7, 'o', 107`, "   7|7   |ok"},
		{`"%zu %lu%%", sizeof(u64), sizeof(unsigned long)`, "8 8%"},
		// C
		{`"%d", 1 + 2 * 3 - 8 / 4 % 3`, "5"},
		{`"%d %d", -7 / 2, -7 % 2`, "-3 -1"},
		{`"%d %d", REC->i < 0, REC->i < 1u`, "1 0"},
		{`"%d", REC->sb == -1 && REC->b > 100 || 0`, "1"},
		{`"%x %x", REC->u >> 4, REC->i >> 1`, "fffffff ffffffff"},
		{`"%x", ~0 & 0xff ^ 0x0f | 0x100`, "1f0"},
		{`"%lx %lx", (unsigned long)REC->i, (unsigned long)(u32)REC->i`, "fffffffffffffffe fffffffe"},
		{`"%d", (1 << 20) - 1 & !REC->u + 5`, "5"},
		{`"%u:%u", MAJOR(0x800012), MINOR(0x800012)`, "8:18"},
		{`"%s", REC->u ? "yes" : "no"`, "yes"},
		{`"%s", REC->i == -2 ? __get_str(name) : REC->comm`, "a b.c"},
		{`"%d", ({ int x = (REC->b); int y = (128); ((x) < (y) ? (x) : (y)); })`, "128"},
		{`"%d", __builtin_expect(!!(REC->b), 0)`, "1"},
		{`"%x %d %x", REC->words[1], REC->words[50], ((u16 *)REC->words)[2]`, "abc 0 abc"},
		{`"%llu.%09u", __print_ns_to_secs(5000000007ULL), __print_ns_without_secs(5000000007ULL)`, "5.000000007"},
		{`"%d", 5 / (REC->b - 200)`, "0"},
		{`"%d %d", __event_in_irq() != 0, __event_in_hardirq()`, "1 0"},
		{`"%d", REC->__data_loc_name & 0xffff`, "92"},
		{`"a" "b\n\t\"\\\x41\101"`, "ab\n\t\"\\AA"},
		// text
		{`"%s|%8s|%-8s|%.2s|%.*s", REC->comm, REC->comm, REC->comm, REC->comm, 3, REC->comm`, "futex|   futex|futex   |fu|fut"},
		{`"%s %s", REC->ptr, (void *)0`, "cpuqs (null)"},
		// macros
		{`"%s", __print_flags(REC->b, "|", { 8, "H" }, { 0x40, "S" }, { 0x80, "Z" })`, "H|S|Z"},
		{`"%s|%s", __print_flags(REC->b, "|", { 8, "H" }), __print_flags(0, "", { 1, "x" })`, "H|0xc0|"},
		{`"%s %s", __print_symbolic(REC->b, { 1, "one" }, { 200, "many" }), __print_symbolic(REC->i, { 1, "one" }, { -1, 0 })`, "many 0xfffffffffffffffe"},
		{`"%s", __print_array(REC->words, 3, 4)`, "{0x1,0xabc,0x0}"},
		{`"%s", __print_array(__get_rel_dynamic_array(list), __get_rel_dynamic_array_len(list) / 2, 2)`, "{0x5,0x6}"},
		{`"%s", __print_dynamic_array(list, sizeof(u16))`, "{0x5,0x6}"},
		{`"%s %s", __print_hex(REC->words, 5), __print_hex_str(REC->words, 5)`, "01 00 00 00 bc 01000000bc"},
		{`"%s %*pbl", __get_bitmask(mask), 64, __get_dynamic_array(mask)`, "00000001,0000000f 0-3,32"},
		// pointers
		{`"%p %px", REC->ptr, 0`, "ffffffff81000010 0000000000000000"},
		{`"%ps %pS %pS", (void *)REC->ptr, REC->ptr, (void *)0x99`, "_stext _stext+0x10/0x20 0x99"},
		{`"%pM %pI4 %pI6c %pISpc", REC->id, REC->id, REC->id, &REC->sa`, "00:11:22:33:44:55 0.17.34.51 11:2233:4455:6677:8899:aabb:ccdd:eeff 127.0.0.1:8080"},
		{`"%pU %pUl", REC->id, REC->id`, "00112233-4455-6677-8899-aabbccddeeff 33221100-5544-7766-8899-aabbccddeeff"},
		{`"%*ph|%3phC|%*phN", 3, REC->id, REC->id, 2, &REC->id[4]`, "00 11 22|00:11:22|4455"},
	} {
		p, err := Compile(event(x.fmt), 8)
		if err != nil {
			t.Errorf("%s: %v", x.fmt, err)
			continue
		}
		if got := string(p.Append(nil, env())); got != x.want {
			t.Errorf("%s gives\n%q, want\n%q", x.fmt, got, x.want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, s := range []string{
		``, `REC->u`, `"%d"`, `"%d", `, `"%d", REC->none`, `"%d", REC->u REC->u`, `"%d", "x"`, `"%s", 5`, `"%d", (REC->u`,
		`"%d", some_function(REC->u)`, `"%d", SOME_ENUM`, `"%d", REC->u->x`, `"%y", 5`, `"%s", REC->u ? 1 : "x"`,
		`"%s", ({ const char *p = trace_seq_buffer_ptr(p); p; })`, `"%d", sizeof(struct foo)`, `"abc`,
		`"%s", __print_flags(REC->u, "|", { REC->i, "x" })`, `"%s", __print_array(REC->u, 1, 1)`, `"%s", __print_array(REC->words, 1, 3)`,
	} {
		if p, err := Compile(event(s), 8); !errors.Is(err, errUnknown) {
			t.Errorf("%s is taken as %+v, error %v", s, p, err)
		}
	}
}

func TestAppendFields(t *testing.T) {
	const want = ` u=0xfffffff0 (-16) i=0xfffffffe (-2) l=0xfffffffffffffff5 (-11) comm=futex words=<INVALID-SIZE> b=(200)` +
		` sb=(255) h=0xbeef (48879) name=a b.c list=05,00,06,00 ptr=0xffffffff81000010 (-2130706416)`
	e := event("")
	e.Fields = e.Fields[:11]
	got := string(AppendFields(nil, e, env()))
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// A 32-bit machine of the other byte order.
func TestBigEndian32(t *testing.T) {
	e := &format.Event{PrintFmt: `"%lx %d %lld", REC->l, REC->i, REC->q`, Fields: []format.Field{
		{Type: "unsigned long", Name: "l", Offset: 0, Size: 4},
		{Type: "int", Name: "i", Offset: 4, Size: 4, Signed: true},
		{Type: "s64", Name: "q", Offset: 8, Size: 8, Signed: true},
	}}
	p, err := Compile(e, 4)
	if err != nil {
		t.Fatal(err)
	}
	rec := []byte{0x80, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd}
	if got := string(p.Append(nil, &Env{Record: rec, BigEndian: true, LongSize: 4})); got != "80000001 -2 -3" {
		t.Error(got)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`"%d %s", REC->i, __get_str(name)`, sample())
	f.Add(`"%s", __print_flags(REC->u & ((1 << 2) - 1), "|", { 1, "S" })`, sample())
	f.Add(`"%*pbl %pISpc %08lx", 64, __get_dynamic_array(mask), &REC->sa, (unsigned long)REC->l`, []byte{})
	f.Add(`"%d", ({ int x = (REC->b); x; })`, sample()[:50])
	f.Fuzz(func(t *testing.T, printFmt string, rec []byte) {
		p, err := Compile(event(printFmt), 8)
		if err != nil {
			return
		}
		e := env()
		e.Record = rec
		p.Append(nil, e)
		AppendFields(nil, event(printFmt), e)
	})
}

func BenchmarkAppend(b *testing.B) {
	p, err := Compile(event(`"comm=%s pid=%d state=%s val=0x%lx ==> %s", REC->comm, REC->i, __print_flags(REC->b, "|", { 8, "H" }, { 0x40, "S" }, { 0x80, "Z" }), ((unsigned long)(REC->l)), __get_str(name)`), 8)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	e := env()
	out := make([]byte, 0, 256)
	for b.Loop() {
		out = p.Append(out[:0], e)
	}
}
