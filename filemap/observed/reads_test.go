package observed

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// noted is a reading with the note that the process was read every tenth of a second.
func noted(dump, from, until string) string {
	return dump + "# read from=" + from + " until=" + until + " every=0.1\n"
}

// TestReadsAddress: with notes of readings, a raw address has the file that both readings
// have around the stack, and none in a pause or after the last reading.
func TestReadsAddress(t *testing.T) {
	steady := noted(read(2, "p", codeA), "2.0", "3.0") + noted(read(3, "p", codeA, other), "3.05", "4.0")
	steady = strings.ReplaceAll(steady, "### t=3.0", "### t=3.05")
	pause := noted(read(2, "p", codeA), "2.0", "3.0") + "# read from=5.0 until=6.0 every=0.1\n"
	change := noted(read(2, "p", codeA), "2.0", "3.0") + noted(strings.ReplaceAll(read(3, "p", other), "### t=3.0", "### t=3.05"), "3.05", "4.0")
	for _, c := range []struct {
		name, dump string
		at         tracefs.Time
		want       string
	}{
		{"while it is read", steady, 2.5e9, "/lib/a+0x1234 late"},
		{"at a change of other mappings", steady, 3.02e9, "/lib/a+0x1234 late"},
		{"after the last reading", steady, 4.01e9, "no-address-space"},
		{"before a pause", pause, 2.9e9, "/lib/a+0x1234 late"},
		{"in a pause", pause, 4e9, "no-address-space"},
		{"after a pause", pause, 5.5e9, "/lib/a+0x1234 late"},
		{"before a change", change, 2.9e9, "/lib/a+0x1234 late"},
		{"at a change", change, 3.02e9, "no-address-space"},
		{"after a change: it can have come again", change, 3.5e9, "no-address-space"},
	} {
		if got := landing(t, c.dump, "p", inLib, c.at); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestReadsExclusion: exclusion and the number of a file prove nothing for a pause.
func TestReadsExclusion(t *testing.T) {
	maps := "10000-20000 r-xp 0 fe:00 5 /a\n"
	dump := noted("### t=1.0 pid=1 comm=x exe=/x\n"+maps, "1.0", "2.0") + "# read from=6.0 until=7.0 every=0.1\n"
	claim := func(at tracefs.Time, id tracefs.Identifier) witnessed {
		return witnessed{1, at, id, 0x1234, resolve.Unnamed(filemap.Unannounced)}
	}
	late := "### t=9.0 pid=2 comm=y exe=/y\n30000-40000 r-xp 0 fe:00 8 /late\n"
	got := attributed(t, map[int32]string{1: dump, 2: noted(late, "9.0", "9.5")},
		claim(1.5e9, tracefs.HashIdentifier(3)), claim(4e9, tracefs.HashIdentifier(4)), claim(6.5e9, tracefs.HashIdentifier(3)),
		claim(4e9, tracefs.InodeIdentifier(5, 0xfe, 0)),
		witnessed{2, 8e9, tracefs.InodeIdentifier(8, 0xfe, 0), 0x1234, resolve.Unnamed(filemap.Unannounced)})
	want := []string{"/a inferred", "unannounced", "/a inferred", "ambiguous", "ambiguous"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("frame %d: %q, want %q", i, got[i], want[i])
		}
	}
}

// TestReadsUnsaid: in a dump that does not say when processes were read, all can have been
// different in a pause between two readings that are the same: no proof by it is more than
// late, and the kernel's word for a mapping stays its word.
func TestReadsUnsaid(t *testing.T) {
	hash, other, inode := tracefs.HashIdentifier(1), tracefs.HashIdentifier(2), tracefs.InodeIdentifier(6, 0xfe, 0)
	none := resolve.Unnamed(filemap.Unannounced)
	frames := []witnessed{
		{1, 5e9, hash, 0x1000, resolve.Own(&filemap.File{Path: "/a"})}, // the kernel looked
		{1, 6e9, hash, 0x1000, none},                                   // it looked at that before
		{1, 5e9, other, 0x1000, none},                                  // exclusion
		{77, 5e9, hash, 0x1000, none},                                  // of which there is no reading
	}
	paused := twice(libA + libB)
	for dump, want := range map[string]string{
		steadily(paused): "[/a verified /a verified /b inferred /a verified] [/b verified]",
		paused:           "[/a announced /a late /b late /a late] [/b late]",
	} {
		read := map[int32]string{1: dump}
		got := attributedBy(t, "", read, frames...)
		number := attributedBy(t, "", read, witnessed{1, 5e9, inode, 0x1000, none})
		if all := fmt.Sprint(got, " ", number); all != want {
			t.Errorf("%v, want %s", all, want)
		}
	}
	// What is proven of one process holds for another one no more than for itself.
	forked := strings.ReplaceAll(paused, "pid=1", "pid=2")
	got := attributedBy(t, "", map[int32]string{1: paused, 2: steadily(forked)}, frames[0], witnessed{2, 6e9, hash, 0x1000, none})
	if want := "[/a announced /a late]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestReadsBounds: notes are untrusted, too: each makes a version of its own.
func TestReadsBounds(t *testing.T) {
	d := newDump()
	d.mappings = maxMappings - 2
	dump := read(1, "p", codeA) + strings.Repeat("# read from=2 until=2 every=1\n# read from=5 until=6 every=1\n# read from=9 until=9 every=1\n", 50)
	if err := d.maps(strings.NewReader(dump), 7); err != nil {
		t.Fatal(err)
	}
	if n := len(d.spaces[7]); n != 2 {
		t.Errorf("%d versions, want as many as there may be mappings", n)
	}
}

// TestHastyProcess: what comes and goes in one process is not the same mapping from one
// reading to the next, but it is in another process, in which it stays.
func TestHastyProcess(t *testing.T) {
	prog := "10000-20000 r-xp 0 fe:00 5 /prog\n"
	plug := "50000-60000 r-xp 0 fe:00 6 /plug\n"
	lib := "70000-80000 r-xp 0 fe:00 7 /lib\n"
	at := func(second int, maps string) string {
		return strings.Replace(read(second, "p"), "pid=7", "pid=1", 1) + maps
	}
	d := newDump()
	hasty := at(1, prog+plug+lib) + at(2, prog+lib) + at(3, prog+plug+lib) + at(4, prog+plug+lib)
	if err := d.maps(strings.NewReader(hasty), 1); err != nil {
		t.Fatal(err)
	}
	if err := d.maps(strings.NewReader(strings.ReplaceAll(at(1, prog+plug)+at(4, prog+plug), "pid=1", "pid=2")), 2); err != nil {
		t.Fatal(err)
	}
	d.identify()
	d.order()
	v, w := d.spaces[1], d.spaces[2]
	if v[2].runs[1] == v[3].runs[1] || v[0].runs[0] != v[3].runs[0] || v[0].runs[2] != v[3].runs[2] {
		t.Error("the plugin is one mapping, or what stays is not")
	}
	if w[0].runs[1] != w[1].runs[1] {
		t.Error("the plugin is not one mapping in the process in which it stays")
	}
}

// TestAddressHasty: where files come and go, a raw address has the file of two readings
// only if that is in all of them.
func TestAddressHasty(t *testing.T) {
	for _, c := range []struct {
		name, dump string
		want       string
	}{
		{"it comes twice", readings(plugA, "", plugA, plugA, plugA), "no-address-space"},
		{"it stays, and another one comes twice", readings(plugA+other, plugA, plugA+other, plugA, plugA), "/lib/a+0x1234 late"},
	} {
		if got := landing(t, c.dump, "prog", inLib, 3.5e9); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestSkewHasty: the frames of a program whose files come and go say nothing of the clocks.
func TestSkewHasty(t *testing.T) {
	for _, c := range []struct {
		name, dump string
		bounds     int
	}{
		{"they stay", readings("", "", other, other), 1},
		{"others come and go", readings(plugA, "", plugA+other, other), 0},
	} {
		d := newDump()
		if err := d.maps(strings.NewReader(c.dump), 7); err != nil {
			t.Fatal(err)
		}
		d.identify()
		d.order()
		cal := newCalibration()
		cal.see(d, 7, &resolve.Query{TID: 7, TGID: 7, Time: 3.5e9, Timed: true, Attributions: []resolve.Attribution{resolve.Unnamed(filemap.NoAddressSpace)},
			Frames: []tracefs.Frame{{Form: tracefs.FormPlain, Addr: 0x7f1000001234, HasAddr: true}}})
		if len(cal.pending) != c.bounds {
			t.Errorf("%s: %d bounds, want %d", c.name, len(cal.pending), c.bounds)
		}
	}
}

// TestHullPause: a file can have come again in a pause in which no process was read, and
// have been there in one before.
func TestHullPause(t *testing.T) {
	without := func(second int, until string, more string) string {
		return noted(read(second, "p"), strconv.Itoa(second)+".0", until) + more
	}
	with := noted(read(3, "p", codeA), "3.0", "3.9") + noted(strings.ReplaceAll(read(4, "p", codeA, other), "### t=4.0", "### t=3.95"), "3.95", "4.95")
	pause := func(from, until string) string { return "# read from=" + from + " until=" + until + " every=0.1\n" }
	for _, c := range []struct {
		name, dump string
		want       hull
	}{
		{"it comes and goes", without(2, "2.95", "") + with + without(5, "6.0", ""), hull{2e9, 5e9}},
		{"a pause after it", without(2, "2.95", "") + with + without(5, "6.0", pause("8.0", "9.0")), hull{2e9, 8e9}},
		{"a pause before it", without(1, "1.5", pause("2.0", "2.95")) + with + without(5, "6.0", ""), hull{1e9, 5e9}},
	} {
		d := newDump()
		if err := d.maps(strings.NewReader(c.dump), 7); err != nil {
			t.Fatal(err)
		}
		d.identify()
		d.order()
		k := hullKey{pid: 7, page: 0x7f0000001000}
		if got := d.pauses.around(k.hull(d.spaces[7]), d.spaces[7]); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	every := tracefs.Time(100e6)
	p := pauses{{1e9, 2e9}, {6e9, 9e9}}
	life := []version{{at: 2e9, until: 3e9, every: every}, {at: 5e9, until: 6e9, every: every}}
	if got := p.around(hull{2e9, 5e9}, life); got != (hull{1e9, 9e9}) {
		t.Errorf("read between two pauses only: %+v", got)
	}
	if got := p.around(hull{never, ever}, life); got != (hull{never, ever}) {
		t.Errorf("there all the time: %+v", got)
	}
}

// TestPausedProgram: a program keeps its own file open for as long as it runs, so an
// identifier of that file holds in a pause. A program at no random place can have been executed
// anew in the pause: its vDSO is where the vDSO of any program is.
func TestPausedProgram(t *testing.T) {
	id := tracefs.HashIdentifier(3)
	prog := &filemap.File{Path: "/bin/prog"}
	for _, c := range []struct{ name, stack, want string }{
		{"at a random place", "7ffe12345000-7ffe12366000", "[/bin/prog verified /bin/prog verified /bin/prog verified]"},
		{"at no random place", "7ffffffde000-7ffffffff000", "[/bin/prog verified /bin/prog claimed /bin/prog inferred]"},
	} {
		maps := "10000-20000 r-xp 0 fe:00 5 /bin/prog\n7ffff7fc1000-7ffff7fc3000 r-xp 0 00:00 0 [vdso]\n" + c.stack + " rw-p 0 00:00 0 [stack]\n"
		dump := noted("### t=1.0 pid=1 comm=prog exe=/bin/prog\n"+maps, "1.0", "2.0") + "# read from=6.0 until=7.0 every=0.1\n"
		said := resolve.Named(prog, filemap.Claimed)
		got := attributed(t, map[int32]string{1: dump}, witnessed{1, 1.5e9, id, 0x1234, resolve.Own(prog)},
			witnessed{1, 4e9, id, 0x1234, said}, witnessed{1, 6.5e9, id, 0x1234, said})
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}
