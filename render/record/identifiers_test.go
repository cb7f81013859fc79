package record

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/redact"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// TestIdentifiers: a file has one identifier, other files have others, and nothing
// but the secret gives them.
func TestIdentifiers(t *testing.T) {
	files := filemap.NewFiles()
	libc := files.Intern([]byte("/lib/libc.so.6"), []byte("0x1,0x2,0x3,0x4,0x5"))
	rebuilt := files.Intern([]byte("/lib/libc.so.6"), []byte("0x1,0x2,0x3,0x4,0x6"))
	a, b := NewIdentifiers(nil), NewIdentifiers(nil)
	first, again := a.Of(libc, tracefs.NoMark), a.Of(libc, tracefs.NoMark)
	if first != again || a.Of(libc, tracefs.NoMark) == a.Of(rebuilt, tracefs.NoMark) || a.Of(libc, tracefs.NoMark) == b.Of(libc, tracefs.NoMark) {
		t.Errorf("%#x, %#x; %#x; elsewhere %#x", a.Of(libc, tracefs.NoMark), a.Of(libc, tracefs.NoMark), a.Of(rebuilt, tracefs.NoMark), b.Of(libc, tracefs.NoMark))
	}
	key := bytes.Repeat([]byte("k"), 32)
	if v, w := IdentifiersFor(redact.New(key, nil)).Of(libc, tracefs.NoMark), IdentifiersFor(redact.New(key, nil)).Of(libc, tracefs.NoMark); v != w || v == NewIdentifiers(key).Of(libc, tracefs.NoMark) {
		t.Errorf("with a key %#x and %#x", v, w)
	}
	if v := libc.Identifier(tracefs.NoMark); a.Of(libc, tracefs.NoMark) == v || redact.Identifier(v) == a.Of(libc, tracefs.NoMark) {
		t.Errorf("%#x is made of path and build ID alone", a.Of(libc, tracefs.NoMark))
	}
	seen := make(map[uint64]bool)
	for i := range 10_000 {
		v := a.Of(&filemap.File{Path: strings.Repeat("x", i%100) + string(rune('a'+i/100))}, tracefs.NoMark)
		if id := tracefs.HashIdentifier(v); seen[v] || id.NoFile() || id.NoVMA() || redact.IsAddress(v) {
			t.Fatalf("%#x", v)
		}
		seen[v] = true
	}
}

// TestIdentifiersClash: of two files with the same number, one gets another one.
func TestIdentifiersClash(t *testing.T) {
	ids := NewIdentifiers([]byte("secret"))
	f := &filemap.File{Path: "/a"}
	v, rest := ids.number(f, tracefs.NoMark, 0)
	ids.seen[v] = rest + 1 // of another file
	got := ids.Of(f, tracefs.NoMark)
	if got == v || ids.Of(f, tracefs.NoMark) != got {
		t.Errorf("%#x and %#x, the other file has %#x", got, ids.Of(f, tracefs.NoMark), v)
	}
}

// TestCompactRaw: text that is not escaped is not written.
func TestCompactRaw(t *testing.T) {
	h := &resolve.Pending{Batch: &tracefs.Batch{Text: []byte("a\nb")}}
	var out bytes.Buffer
	for _, c := range []*Compact{NewCompact(&out), {Redact: redact.New(bytes.Repeat([]byte("k"), 32), nil)}} {
		if err := c.Batch(h); err == nil || out.Len() > 0 {
			t.Errorf("%q, %v", &out, err)
		}
	}
}

// TestUnfinishedLine: a trace that ends inside a line does not hide the last line of
// the report.
func TestUnfinishedLine(t *testing.T) {
	h := pending(t, "            task-7       [000] .....   100.000001: ev: x")
	var out bytes.Buffer
	c := NewCompact(&out)
	check(t, c.Batch(h))
	end := string(c.End(&resolve.Totals{}, Left{}))
	if !strings.HasSuffix(out.String(), "ev: x") || !strings.HasPrefix(end, "\n# ustack: end ") {
		t.Errorf("%q, %q", &out, end)
	}
}

// TestRedactedNames: a name has one token wherever it stands, and however it is
// escaped there.
func TestRedactedNames(t *testing.T) {
	for _, name := range []string{"a\nb", `\012`, " lead", "x\x1b"} {
		head := strings.Repeat(" ", 16-len(name)) + name + "-7       [000] .....   100.00000"
		h := pending(t, head+"1: sched_switch: prev_comm="+name+" prev_pid=7 prev_prio=120 prev_state=S ==> next_comm="+name+" next_pid=8 next_prio=120\n")
		var out bytes.Buffer
		c := NewCompact(&out)
		c.Redact = redact.New(bytes.Repeat([]byte("k"), 32), nil)
		check(t, c.Batch(h))
		got := strings.TrimLeft(out.String(), " ")
		token, _, _ := strings.Cut(got, "-7 ")
		if len(token) != 13 || strings.Count(got, token) != 3 {
			t.Errorf("%q is\n%s", name, got)
		}
	}
}

// TestPlacesRedacted: the lines with where futexes are do not stay in a redacted report, and are
// no field of one that is merged.
func TestPlacesRedacted(t *testing.T) {
	const place, event = text.PlaceMark + "thread=7 process=7 began=1 program=secret\n", "            task-7       [000] .....   100.000001: sys_futex -> 0x0\n"
	h := ours(t, text.Head+place+event+place+event)
	var out bytes.Buffer
	c := NewCompact(&out)
	c.Redact = redact.New(bytes.Repeat([]byte("k"), 32), nil)
	check(t, c.Batch(h))
	if got := out.String(); strings.Contains(got, "place") || strings.Contains(got, "secret") || strings.Count(got, "sys_futex") != 2 {
		t.Errorf("redacted:\n%s", got)
	}
	r := NewMerge().Report()
	check(t, r.Batch(ours(t, text.Head+place+"# ustack: kernel=6\n"+event)))
	if len(r.fields) != 2 || r.fields[1] != "kernel=6" {
		t.Errorf("fields %q", r.fields)
	}
}

// TestCompactBefore: what comes before an event has lines of its own, wherever it stands.
func TestCompactBefore(t *testing.T) {
	const event = "            task-7       [000] .....   100.000001: sys_futex -> 0x0\n"
	const stack = "            task-7       [000] .....   100.000002: <user stack trace>\n =>  <0000000000001234>\n"
	var out bytes.Buffer
	c := NewCompact(&out)
	n := 0
	c.Before = func(b []byte, _ *resolve.Pending, _ *tracefs.Record) []byte {
		n++
		if n == 2 {
			return b
		}
		return fmt.Appendf(b, "# %d\n", n)
	}
	check(t, c.Batch(pending(t, event+stack+event+event)))
	got := strings.Split(out.String(), "\n")
	if n != 3 || got[0] != "# 1" || !strings.Contains(out.String(), strings.TrimSuffix(event, "\n")+"\n# 3\n"+event) || c.pending != (Left{}) {
		t.Errorf("%q", got)
	}
}

// ours is a text that ustack has written as the resolver gives it out.
func ours(t *testing.T, txt string) *resolve.Pending {
	t.Helper()
	scan := text.NewScanner()
	scan.Events = true
	scan.UseEscapes()
	b := &tracefs.Batch{Text: []byte(txt)}
	_, err := scan.Scan(b, text.MoreNever)
	check(t, err)
	res := resolve.New(resolve.Options{Stitch: true})
	res.Add(b)
	res.End()
	return res.Next()
}
