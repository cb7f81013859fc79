package text

import (
	"strings"
	"testing"

	"ustack/tracefs"
)

// frameLines are frames in all dialects (FORMATS section 2.1 has where they
// come from). A stem that is not given is the whole line.
var frameLines = []struct {
	name, line, addrText string
	form                 tracefs.Form
	id                   tracefs.Identifier
	addr                 uint64
	inferred             bool
}{
	{name: "D0, stock: address", line: " =>  <00007fdbd0d421ca>", form: tracefs.FormPlain, addr: 0x7fdbd0d421ca},
	{name: "D1: offset", line: " =>  <00000000001001ca>", form: tracefs.FormPlain, addr: 0x1001ca},
	{name: "32-bit kernel", line: " =>  <b7f1a2c3>", form: tracefs.FormPlain, addr: 0xb7f1a2c3},
	{name: "highest address", line: " =>  <ffffffffff600007>", form: tracefs.FormPlain, addr: 0xffffffffff600007},
	{
		name: "D3: inode", line: " =>  <000000000008f687> : 1340007 : 254:3", addrText: " =>  <000000000008f687>",
		form: tracefs.FormIdentifier, id: tracefs.InodeIdentifier(1340007, 254, 3), addr: 0x8f687,
	},
	{
		name: "D3: inode of 19 digits", line: " =>  <000000000008f687> : 9223372036854775807 : 0:50", addrText: " =>  <000000000008f687>",
		form: tracefs.FormIdentifier, id: tracefs.InodeIdentifier(1<<63-1, 0, 50), addr: 0x8f687,
	},
	{ // printed signed, announced unsigned
		name: "D3: inode above 63 bits", line: " =>  <000000000008f687> : -7 : 0:50", addrText: " =>  <000000000008f687>",
		form: tracefs.FormIdentifier, id: tracefs.InodeIdentifier(1<<64-7, 0, 50), addr: 0x8f687,
	},
	{
		name: "D2: no file", line: " =>  <00007ffd5a7fe000> : 0 : 0:0", addrText: " =>  <00007ffd5a7fe000>",
		form: tracefs.FormIdentifier, id: tracefs.InodeIdentifier(0, 0, 0), addr: 0x7ffd5a7fe000,
	},
	{
		name: "D3: no VMA", line: " =>  <ffffffffff600007> : -1 : 0:0", addrText: " =>  <ffffffffff600007>",
		form: tracefs.FormIdentifier, id: tracefs.InodeIdentifier(1<<64-1, 0, 0), addr: 0xffffffffff600007,
	},
	{
		name: "D4: hash", line: " =>  <000000000008f687> : 0x666220af", addrText: " =>  <000000000008f687>",
		form: tracefs.FormIdentifier, id: tracefs.HashIdentifier(0x666220af), addr: 0x8f687,
	},
	{
		name: "D4: short hash", line: " =>  <000000000008f687> : 0xf4e46cf", addrText: " =>  <000000000008f687>",
		form: tracefs.FormIdentifier, id: tracefs.HashIdentifier(0xf4e46cf), addr: 0x8f687,
	},
	{
		name: "D4: hash of 64 bits", line: " =>  <000000000008f687> : 0xffff8881007ed428", addrText: " =>  <000000000008f687>",
		form: tracefs.FormIdentifier, id: tracefs.HashIdentifier(0xffff8881007ed428), addr: 0x8f687,
	},
	{
		name: "D4: no file", line: " =>  <00007ffd5a7fe000> : 0x0", addrText: " =>  <00007ffd5a7fe000>",
		form: tracefs.FormIdentifier, id: tracefs.HashIdentifier(0), addr: 0x7ffd5a7fe000,
	},
	{
		name: "D4: no VMA", line: " =>  <ffffffffff600007> : 0xffffffff", addrText: " =>  <ffffffffff600007>",
		form: tracefs.FormIdentifier, id: tracefs.HashIdentifier(0xffffffff), addr: 0xffffffffff600007,
	},
	{
		name: "D5", line: " =>  <0000000000001472> : path=/home/c/futex_requeue build_id={0xc02417ea,0x1f4e0143,0x338cf27d,0x506a7a5d,0x7884d090}",
		addrText: " =>  <0000000000001472>", form: tracefs.FormResolved, addr: 0x1472,
	},
	{name: "D5 without build ID", line: " =>  <0000000000001472> : path=/a b", addrText: " =>  <0000000000001472>", form: tracefs.FormResolved, addr: 0x1472},
	{name: "D5 as ustack writes it", line: " =>  <0000000000001472> : path=/a [build_id=c2e0a63b]", addrText: " =>  <0000000000001472>", form: tracefs.FormResolved, addr: 0x1472},
	{
		name: "D5 with a function", line: " =>  <0000000000001472> work+0x1c a b.c:33 : path=/a : path=/b",
		addrText: " =>  <0000000000001472> work+0x1c a b.c:33", form: tracefs.FormResolved, addr: 0x1472,
	},
	{
		name: "D5 with an inferred function", line: " =>  <0000000000001472> work (inferred) : path=/a", inferred: true,
		addrText: " =>  <0000000000001472> work (inferred)", form: tracefs.FormResolved, addr: 0x1472,
	},
	{
		name: "D5 with inlined functions", line: " =>  <0000000000001472> leaf(int) a.c:1 <- work+0x1c b.c:33 : path=/a build_id={0x1,0x2,0x3,0x4,0x5}",
		addrText: " =>  <0000000000001472> leaf(int) a.c:1 <- work+0x1c b.c:33", form: tracefs.FormResolved, addr: 0x1472,
	},
	{
		name: "D5 without a function", line: " =>  <0000000000001472> (no symbol: stripped) : path=/a",
		addrText: " =>  <0000000000001472> (no symbol: stripped)", form: tracefs.FormResolved, addr: 0x1472,
	},
	{name: "a function and no file", line: " =>  <0000000000001472> work+0x1c", addrText: " =>  <0000000000001472>", form: tracefs.FormUnknown, addr: 0x1472},
	{name: "two blanks and a file", line: " =>  <0000000000001472>  work+0x1c : path=/a", addrText: " =>  <0000000000001472>", form: tracefs.FormUnknown, addr: 0x1472},
	{name: "D5 with a colon", line: " =>  <0000000000001472> : path=/a : 0x1", addrText: " =>  <0000000000001472>", form: tracefs.FormResolved, addr: 0x1472},
	{name: "object", line: " => /tmp/v[+0x27e]", form: tracefs.FormObject},
	{name: "object and address", line: " => /tmp/v[+0x27e] <000055d2508cd27e>", addrText: " => /tmp/v[+0x27e]", form: tracefs.FormObject},
	{name: "object far away", line: " => /tmp/v[+0xffffaa2dc1a79678]", form: tracefs.FormObject},
	{name: "object with blanks", line: " => /memfd:jit code (deleted)[+0x12]", form: tracefs.FormObject},
	{name: "object with brackets", line: " => /tmp/[x] <y>[+0x1][+0x14]", form: tracefs.FormObject},
	{name: "object with a line feed", line: ` => /tmp/a\012b[+0x14]`, form: tracefs.FormObject},
	{name: "no object", line: " =>  <0000600000000021>", form: tracefs.FormPlain, addr: 0x600000000021},
	{
		name: "unresolved before", line: " =>  <000000000008f687> : 0x666220af (unresolved: lost)", addrText: " =>  <000000000008f687> : 0x666220af",
		form: tracefs.FormUnresolved, addr: 0x666220af,
	},
	{
		name: "object unresolved before", line: " => /tmp/v[+0x27e] (unresolved: vma-offset)", addrText: " => /tmp/v[+0x27e]",
		form: tracefs.FormUnresolved,
	},
	{name: "very old kernels", line: " => ??", form: tracefs.FormUnknown},
	{name: "nothing", line: " => ", form: tracefs.FormUnknown},
	{name: "no number", line: " =>  <>", form: tracefs.FormUnknown},
	{name: "capital letters", line: " =>  <00000000000F0F0F>", form: tracefs.FormUnknown},
	{name: "not hexadecimal", line: " =>  <00000000000xf0f0> : 0x12345678", form: tracefs.FormUnknown},
	{name: "address of 17 digits", line: " =>  <10000000000000000>", form: tracefs.FormUnknown},
	{name: "hash of 17 digits", line: " =>  <0000000000001472> : 0x10000000000000000", addrText: " =>  <0000000000001472>", form: tracefs.FormUnknown, addr: 0x1472},
	{name: "no hash", line: " =>  <0000000000001472> : 0x", addrText: " =>  <0000000000001472>", form: tracefs.FormUnknown, addr: 0x1472},
	{name: "hash and blank", line: " =>  <0000000000001472> : 0x12 ", addrText: " =>  <0000000000001472>", form: tracefs.FormUnknown, addr: 0x1472},
	{name: "half a device", line: " =>  <0000000000001472> : 12 : 254", addrText: " =>  <0000000000001472>", form: tracefs.FormUnknown, addr: 0x1472},
	{name: "device and more", line: " =>  <0000000000001472> : 12 : 254:3:1", addrText: " =>  <0000000000001472>", form: tracefs.FormUnknown, addr: 0x1472},
	{name: "symbol", line: " => do_syscall_64", form: tracefs.FormUnknown},
}

// TestFrames reads each frame three times over: alone, after itself, and among
// frames that fill a trace, where the fast path is at work.
func TestFrames(t *testing.T) {
	const usual = " =>  <0000000000097d8c> : 0x9bcf40b4\n"
	const title = "[007] .....  1290.400226: <user stack unwind>\ncookie=300000008\n"
	tail := strings.Repeat(columnsLine("cat", 7, "[007] .....  1290.400227: ev: x\n"), 4)
	for _, c := range frameLines {
		t.Run(c.name, func(t *testing.T) {
			want := frameView{Text: c.line, AddrText: c.addrText, Form: c.form, ID: c.id, Addr: c.addr}
			if want.AddrText == "" {
				want.AddrText = c.line
			}
			if f, _ := parseFrame([]byte(c.line), 0, len(c.line)); f.Inferred() != c.inferred {
				t.Errorf("inferred: %v", f.Inferred())
			}
			for _, text := range []string{
				columnsLine("cat", 7, title+c.line+"\n"),
				columnsLine("cat", 7, title+c.line+"\n"+c.line+"\n") + tail,
				tail + columnsLine("cat", 7, title+usual+c.line+"\n"+usual+usual) + tail,
			} {
				sameFrames(t, text, c.line, want)
			}
		})
	}
}

func sameFrames(t *testing.T, text, line string, want frameView) {
	t.Helper()
	found := 0
	for _, v := range scan(t, text) {
		for _, f := range v.Frames {
			if f.Text != line {
				continue
			}
			found++
			// The address of a frame that has none is undefined.
			if want.Form == tracefs.FormUnknown && want.Addr == 0 || want.Form == tracefs.FormUnresolved {
				f.Addr = want.Addr
				f.AddrText = want.AddrText
			}
			if f != want {
				t.Errorf("got %+v\nwant %+v", f, want)
			}
		}
	}
	if n := strings.Count(text, line+"\n"); found != n {
		t.Errorf("%d frames found in %q, want %d", found, text, n)
	}
}

// TestNoFrames has lines that end a stack: they and what follows are no
// frames, whatever they look like.
func TestNoFrames(t *testing.T) {
	const frame = " =>  <0000000000097d8c> : 0x9bcf40b4\n"
	title := columnsLine("cat", 7, "[007] .....  1290.400226: <user stack unwind>\ncookie=300000008\n")
	for _, line := range []string{"=>  <0000000000097d8c> : 0x9bcf40b4", "  =>  <0000000000097d8c>", " =>", "", "cookie=300000008", " -> x", "\t=> 0x1"} {
		v := scanOne(t, title+frame+line+"\n"+frame)
		if len(v.Frames) != 1 {
			t.Errorf("%q: %d frames, want 1", line, len(v.Frames))
		}
	}
}

func TestObjectOffset(t *testing.T) {
	for addrText, want := range map[string]uint64{
		" => /tmp/v[+0x27e]":                    0x27e,
		" => /tmp/v[+0x27e] <000055d2508cd27e>": 0x27e,
		" => /tmp/[+0x1]v[+0xffffaa2dc1a79678]": 0xffffaa2dc1a79678,
	} {
		if got := ObjectOffset([]byte(addrText)); got != want {
			t.Errorf("ObjectOffset(%q) = %#x, want %#x", addrText, got, want)
		}
	}
}
