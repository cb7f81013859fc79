package observed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/tracefs"
)

// layoutDump has a process whose library moves, one that becomes another program,
// and one that shares memory.
const layoutDump = `### t=1.000000000 pid=10 comm=app exe=/app
00400000-00401000 r-xp 00000000 08:01 5 /app
00401000-00402000 rw-p 00001000 08:01 5 /app
00402000-00404000 rw-p 00000000 00:00 0 
7f0000000000-7f0000001000 r-xp 00000000 08:01 6 /lib
7f0000001000-7f0000002000 rw-p 00001000 08:01 6 /lib
7f0000002000-7f0000003000 rw-p 00000000 00:00 0 [anon:.bss]
7f0000003000-7f0000004000 rw-s 00000000 08:01 7 /shared
7f0000004000-7f0000005000 rw-p 00000000 00:00 0 [stack]
### t=2.000000000 pid=10 comm=app exe=/app
00400000-00401000 r-xp 00000000 08:01 5 /app
00401000-00402000 rw-p 00001000 08:01 5 /app
00402000-00404000 rw-p 00000000 00:00 0 
7f0000001000-7f0000002000 r-xp 00000000 08:01 6 /lib
7f0000002000-7f0000003000 rw-p 00001000 08:01 6 /lib
### t=9.000000000 pid=10 comm=other exe=/other
00400000-00401000 r-xp 00000000 08:01 8 /other
00401000-00402000 rw-p 00001000 08:01 8 /other
`

// TestLayout: an address has a layout only if all versions that the process can
// have had then agree on it.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"10.maps": layoutDump, "tids.txt": "10 10\n11 10\n", "vdso.txt": "0123abcd\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.VDSO().Hex() != "0123abcd" {
		t.Errorf("vDSO %s", d.VDSO().Hex())
	}
	e, err := New(d, "")
	if err != nil {
		t.Fatal(err)
	}
	const none = filemap.NoTrust
	for _, c := range []struct {
		what  string
		tid   int32
		comm  string
		at    float64
		addr  uint64
		owner string
		areas int
		trust filemap.Trust
	}{
		{"data", 10, "app", 1.5, 0x401010, "/app", 2, filemap.Late},
		{"bss", 10, "app", 1.5, 0x403fff, "/app", 3, filemap.Late},
		{"of a thread", 11, "worker", 1.5, 0x403fff, "/app", 3, filemap.Late},
		{"after", 10, "app", 1.5, 0x404000, "", 0, none},
		{"named bss", 10, "app", 3, 0x7f0000001fff + 0x1000, "/lib", 2, filemap.Late},
		{"the library has moved at some time until the next reading", 10, "app", 1.5, 0x7f0000002010, "", 0, none},
		{"shared", 10, "app", 1.5, 0x7f0000003010, "", 0, none},
		{"stack", 10, "app", 1.5, 0x7f0000004010, "", 0, none},
		{"the library is moving", 10, "app", 1.99, 0x7f0000001010, "", 0, none},
		{"it has moved", 10, "app", 3, 0x7f0000002010, "/lib", 2, filemap.Late},
		{"another time", 10, "app", 100, 0x401010, "/app", 2, filemap.Late},
		{"another time, before and after", 10, "app", 100, 0x7f0000002010, "", 0, none},
		{"the other program", 10, "other", 9, 0x401010, "/other", 2, filemap.Late},
		{"a program that the dump has missed", 10, "third", 9, 0x401010, "", 0, none},
		{"another process", 99, "app", 1.5, 0x401010, "", 0, none},
	} {
		l, trust := e.Layout(c.tid, -1, []byte(c.comm), tracefsTime(c.at), true, c.addr)
		owner := ""
		if a := l.Owner(c.addr); a != nil {
			owner = a.File.Path
		}
		if owner != c.owner || len(l) != c.areas || l != nil && trust != c.trust {
			t.Errorf("%s: %d areas of %q, %v, want %d of %q, %v", c.what, len(l), owner, trust, c.areas, c.owner, c.trust)
		}
	}
	if l, _ := e.Layout(77, 10, nil, tracefsTime(1.5), true, 0x401010); l == nil {
		t.Error("not found by the number of the process")
	}
}

// TestLayoutStays: whether a layout still holds is known from the versions that the
// process can have had.
func TestLayoutStays(t *testing.T) {
	d := newDump()
	if err := d.maps(strings.NewReader(layoutDump), 10); err != nil {
		t.Fatal(err)
	}
	d.order()
	e, err := New(d, "")
	if err != nil {
		t.Fatal(err)
	}
	const addr = 0x7f0000002010
	l, _ := e.Layout(10, -1, []byte("app"), tracefsTime(3), true, addr)
	own, _ := e.Layout(10, -1, []byte("app"), tracefsTime(1), true, 0x401010)
	if l == nil || own == nil {
		t.Fatal("no layouts")
	}
	for _, c := range []struct {
		what string
		comm string
		at   float64
		addr uint64
		l    filemap.Layout
		want proof.Stay
	}{
		{"the same", "app", 3, addr, l, proof.Stayed},
		{"asked again", "app", 3.1, addr, l, proof.Stayed},
		{"before the dump", "app", 0.95, addr, l, proof.Assumed},
		{"while it moves", "app", 1.5, addr, l, proof.Assumed},
		{"another time", "app", 100, addr, l, proof.Assumed},
		{"the program", "app", 1.5, 0x401010, own, proof.Stayed},
		{"the other program", "other", 9.05, 0x401010, own, proof.Gone},
		{"a program that the dump has missed", "third", 9, 0x401010, own, proof.Assumed},
	} {
		if got := e.Stays(10, -1, []byte(c.comm), tracefsTime(c.at), true, c.addr, c.l); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestLayoutOverlap: a process that has changed while it was read has no layout.
func TestLayoutOverlap(t *testing.T) {
	d := newDump()
	if err := d.maps(strings.NewReader("### t=1 pid=7 comm=x exe=/x\n1000-3000 r-xp 0 8:1 5 /x\n2000-4000 rw-p 1000 8:1 5 /x\n"), 7); err != nil {
		t.Fatal(err)
	}
	d.order()
	e, err := New(d, "")
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := e.Layout(7, -1, nil, tracefsTime(1), true, 0x3800); l != nil {
		t.Errorf("%+v", l)
	}
}

func tracefsTime(seconds float64) tracefs.Time { return tracefs.Time(seconds * 1e9) }
