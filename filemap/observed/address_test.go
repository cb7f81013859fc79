package observed

import (
	"fmt"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// landing is where a raw address is by a dump, in words.
func landing(t *testing.T, dump, comm string, addr uint64, at tracefs.Time) string {
	t.Helper()
	return landed(t, dump, &resolve.Query{TID: 7, TGID: 7, Time: at, Timed: true, Comm: []byte(comm), Attributions: []resolve.Attribution{resolve.Unnamed(filemap.NoAddressSpace)},
		Frames: []tracefs.Frame{{Form: tracefs.FormPlain, Addr: addr, HasAddr: true}}})
}

// landed is where the frame of a stack is.
func landed(t *testing.T, dump string, s *resolve.Query) string {
	t.Helper()
	d := newDump()
	if err := d.maps(strings.NewReader(dump), 7); err != nil {
		t.Fatal(err)
	}
	d.identify()
	d.order()
	e, err := New(d, "")
	if err != nil {
		t.Fatal(err)
	}
	e.Clock("mono")
	for !e.Solve() {
		continue
	}
	e.Attribute(s)
	return said(&s.Attributions[0])
}

// said is an attribution in words.
func said(o *resolve.Attribution) string {
	switch {
	case o.File != nil:
		return fmt.Sprintf("%s+%#x %s", o.File.Path, o.Offset, o.Trust)
	case o.Memory != nil:
		return o.Memory.Name + " " + o.Reason.String()
	}
	return o.Reason.String()
}

// read is a reading of a process at a second.
func read(second int, comm string, lines ...string) string {
	return fmt.Sprintf("### t=%d.0 pid=7 comm=%s exe=/%s\n%s", second, comm, comm, strings.Join(lines, ""))
}

const (
	codeA = "7f0000001000-7f0000003000 r-xp 00001000 fe:00 11 /lib/a\n"
	codeB = "7f0000001000-7f0000003000 r-xp 00001000 fe:00 12 /lib/b\n"
	other = "7f1000001000-7f1000003000 r-xp 00000000 fe:00 13 /lib/other\n"
	inLib = 0x7f0000001234
)

// TestAddressBetween: a raw address has the file that the readings have there between
// which the stack is, and not what others have. It is late: another file can have come
// and gone between the readings.
func TestAddressBetween(t *testing.T) {
	const at = tracefs.Time(2.5e9)
	data := strings.Replace(codeA, "r-xp", "r--p", 1)
	gone := strings.Replace(codeA, "/lib/a", "/lib/a (deleted)", 1)
	for _, c := range []struct {
		name string
		dump string
		addr uint64
		at   tracefs.Time
		want string
	}{
		{"in both", read(2, "p", codeA) + read(3, "p", codeA), inLib, at, "/lib/a+0x1234 late"},
		{"in one", read(2, "p", codeA) + read(3, "p", other), inLib, at, "/lib/a+0x1234 late"},
		{"one file each", read(2, "p", codeA) + read(3, "p", codeB), inLib, at, "ambiguous"},
		{"in the last one", read(2, "p", other) + read(3, "p", codeA), inLib, 3.05e9, "/lib/a+0x1234 late"},
		{"in the last one of the process", read(2, "p", codeA) + strings.Replace(read(4, "q", other), "pid=7", "pid=8", 1), inLib, 3.5e9, "/lib/a+0x1234 late"},
		{"deleted between", read(2, "p", codeA) + read(3, "p", gone), inLib, at, "/lib/a+0x1234 late"},
		{"in none of them, but before: another one can have come and gone", read(1, "p", codeA) + read(2, "p", other) + read(3, "p", other), inLib, at, "no-address-space"},
		{"in none of them, but later", read(2, "p", other) + read(3, "p", other) + read(4, "p", codeA), inLib, at, "no-address-space"},
		{"in none", read(2, "p", other) + read(3, "p", other), inLib, at, "no-vma"},
		{"data that becomes code", read(2, "p", data) + read(3, "p", codeA), inLib, at, "/lib/a+0x1234 late"},
		{"code that becomes data", read(2, "p", codeA) + read(3, "p", data), inLib, at, "/lib/a+0x1234 late"},
		{"data", read(2, "p", data) + read(3, "p", data), inLib, at, "not-code"},
		{"in none, after the dump", read(2, "p", other) + read(3, "p", other), inLib, 9e9, "no-address-space"},
		{"the kernel's, after the dump", read(2, "p", other) + read(3, "p", other), 1<<64 - 8192, 9e9, "no-vma"},
		{"not canonical, after the dump", read(2, "p", other) + read(3, "p", other), 0x2f6c656e72656b2f, 9e9, "no-vma"},
	} {
		if got := landing(t, c.dump, "p", c.addr, c.at); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestAddressShared: shared memory without a name in a file system is no file, although
// the kernel has one for it.
func TestAddressShared(t *testing.T) {
	for _, c := range []struct{ device, name string }{
		{"00:01", "/dev/zero (deleted)"}, {"00:01", "/SYSV0000002a (deleted)"}, {"00:01", "[anon_shmem:v8-jit]"},
	} {
		line := "7f0000001000-7f0000003000 rwxs 00000000 " + c.device + " 9 " + c.name + "\n"
		if got, want := landing(t, read(2, "p", line)+read(3, "p", line), "p", inLib, 2.5e9), c.name+" anonymous"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAddressFixed: where programs are at no random place, what one of them has there is
// not what another one had.
func TestAddressFixed(t *testing.T) {
	const top = "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n"
	const random = "7ffe12300000-7ffe12321000 rw-p 00000000 00:00 0 [stack]\n"
	const at = tracefs.Time(2.5e9)
	for _, c := range []struct {
		name, stack string
		readings    []string
		want        string
	}{
		{"of another name", top, []string{read(2, "next", codeA, top), read(3, "next", codeA, top)}, "no-address-space"},
		{"of another name, at a random place", random, []string{read(2, "next", codeA, random), read(3, "next", codeA, random)}, "/lib/a+0x1234 late"},
		{"once of another name", top, []string{read(2, "p", other, top), read(3, "next", codeA, top)}, "no-address-space"},
		{"once of another name, at a random place", random, []string{read(2, "p", other, random), read(3, "next", codeA, random)}, "/lib/a+0x1234 late"},
		{"read before and after", top, []string{read(2, "p", codeA, top), read(3, "p", codeA, top)}, "/lib/a+0x1234 late"},
		{"read before", top, []string{read(2, "p", codeA, top)}, "/lib/a+0x1234 late"},
	} {
		if got := landing(t, strings.Join(c.readings, ""), "p", inLib, at); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestAddressMany: of a process that was read too often to look at all of that, nothing
// is known: the readings that are looked at can agree although others do not.
func TestAddressMany(t *testing.T) {
	var dump strings.Builder
	for range maxAgreed {
		dump.WriteString(read(2, "p", codeA))
	}
	if got := landing(t, dump.String(), "p", inLib, 9e9); got != "/lib/a+0x1234 late" {
		t.Errorf("%q", got)
	}
	dump.WriteString(read(3, "p", codeB))
	if got := landing(t, dump.String(), "p", inLib, 9e9); got != "no-address-space" {
		t.Errorf("with another one at last: %q", got)
	}
}

// TestSharedFileBetween: a lock is in the file that the readings have there between which
// it was asked for.
func TestSharedFileBetween(t *testing.T) {
	shared := strings.Replace(codeA, "r-xp", "rw-s", 1)
	d := newDump()
	if err := d.maps(strings.NewReader(read(1, "p", shared)+read(2, "p", other)+read(3, "p", other)), 7); err != nil {
		t.Fatal(err)
	}
	d.order()
	d.skew = skew{-unsure, unsure}
	for at, want := range map[tracefs.Time]string{1.2e9: "/lib/a", 2.5e9: ""} {
		if _, path, _, ok := d.SharedFile(7, at, true, inLib); path != want || ok != (want != "") {
			t.Errorf("at %d: %q %v", at, path, ok)
		}
	}
}

// TestObject: the offset in a mapping is one in the file by the rules for addresses.
func TestObject(t *testing.T) {
	jit := "7f0000001000-7f0000003000 rwxs 00000000 00:01 9 /dev/zero (deleted)\n"
	data := strings.Replace(codeA, "r-xp", "r--p", 1)
	more := codeA + "7f0000003000-7f0000004000 r--p 00003000 fe:00 11 /lib/a\n"
	for _, c := range []struct {
		name, dump, line string
		at               tracefs.Time
		want             string
	}{
		{"in both readings", read(2, "p", codeA) + read(3, "p", codeA), " => /lib/a[+0x234]\n", 2.5e9, "/lib/a+0x1234 late"},
		{"in one", read(2, "p", codeA) + read(3, "p", other), " => /lib/a[+0x234]\n", 2.5e9, "/lib/a+0x1234 late"},
		{"after the dump", read(2, "p", codeA) + read(3, "p", codeA), " => /lib/a[+0x234]\n", 9e9, "/lib/a+0x1234 late"},
		{"data", read(2, "p", data) + read(3, "p", data), " => /lib/a[+0x234]\n", 2.5e9, "vma-offset"},
		{"several mappings", read(2, "p", more) + read(3, "p", more), " => /lib/a[+0x234]\n", 2.5e9, "vma-offset"},
		{"after its end", read(2, "p", codeA) + read(3, "p", codeA), " => /lib/a[+0x2000]\n", 2.5e9, "vma-offset"},
		{"no file", read(2, "p", jit) + read(3, "p", jit), " => /dev/zero (deleted)[+0x234]\n", 2.5e9, "vma-offset"},
	} {
		s := &resolve.Query{TID: 7, TGID: 7, Time: c.at, Timed: true, Comm: []byte("p"), Attributions: []resolve.Attribution{resolve.Unnamed(filemap.VMAOffset)},
			Text: []byte(c.line), Frames: []tracefs.Frame{{Form: tracefs.FormObject, End: uint32(len(c.line))}}}
		if got := landed(t, c.dump, s); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
