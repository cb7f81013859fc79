package observed

import (
	"fmt"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// witnessed is a frame of a test: of which process and when, its identifier and
// offset, and what the kernel said.
type witnessed struct {
	tid    int32
	at     tracefs.Time
	id     tracefs.Identifier
	offset uint64
	said   resolve.Attribution
}

// attributed is the attribution of frames by a dump, in words. Each process was read without
// a pause, by the notes of the dump, unless it has notes of its own.
func attributed(t *testing.T, dumps map[int32]string, frames ...witnessed) (got []string) {
	t.Helper()
	return attributedIn(t, "", dumps, frames...)
}

// attributedIn is attributed with the ELF files of a sysroot.
func attributedIn(t *testing.T, sysroot string, dumps map[int32]string, frames ...witnessed) (got []string) {
	t.Helper()
	all := make(map[int32]string)
	for pid, dump := range dumps {
		all[pid] = steadily(dump)
	}
	return attributedBy(t, sysroot, all, frames...)
}

// steadily adds notes to the readings of a dump that has none.
func steadily(dump string) string {
	if strings.Contains(dump, "# read ") {
		return dump
	}
	var out strings.Builder
	for _, reading := range strings.SplitAfter(dump, "\n### ") {
		if at, _, ok := strings.Cut(strings.TrimPrefix(reading, "### "), " "); ok {
			at = strings.TrimPrefix(at, "t=")
			reading, head := strings.CutSuffix(reading, "### ")
			reading += "# read from=" + at + " until=" + at + " every=100\n"
			if head {
				reading += "### "
			}
			out.WriteString(reading)
		}
	}
	return out.String()
}

// attributedBy is attributedIn by dumps as they are.
func attributedBy(t *testing.T, sysroot string, dumps map[int32]string, frames ...witnessed) (got []string) {
	t.Helper()
	d := newDump()
	for pid, text := range dumps {
		if err := d.maps(strings.NewReader(text), pid); err != nil {
			t.Fatal(err)
		}
	}
	d.identify()
	d.order()
	e, err := New(d, sysroot)
	if err != nil {
		t.Fatal(err)
	}
	e.Clock("mono")
	for decided := false; ; decided = e.Solve() {
		got = got[:0]
		for _, f := range frames {
			s := &resolve.Query{TID: f.tid, TGID: f.tid, Time: f.at, Timed: true, Attributions: []resolve.Attribution{f.said},
				Frames: []tracefs.Frame{{Form: tracefs.FormIdentifier, ID: f.id, Addr: f.offset, HasAddr: true}}}
			e.Attribute(s)
			o := &s.Attributions[0]
			switch {
			case o.File != nil && o.File.HasID:
				got = append(got, fmt.Sprintf("%s %x %s", o.File.Path, o.File.BuildID[:1], o.Trust))
			case o.File != nil:
				got = append(got, fmt.Sprint(o.File.Path, " ", o.Trust))
			default:
				got = append(got, o.Reason.String())
			}
		}
		if decided {
			return got
		}
	}
}

// twice is a process at two times with the same mappings.
func twice(maps string) string {
	return "### t=1.0 pid=1 comm=x exe=/x\n" + maps + "### t=9.0 pid=1 comm=x exe=/x\n" + maps
}

const (
	libA = "10000-20000 r-xp 0 fe:00 5 /a\n20000-30000 rw-p 10000 fe:00 5 /a\n"
	libB = "50000-60000 r-xp 0 fe:00 6 /b\n60000-70000 rw-p 10000 fe:00 6 /b\n"
)

// TestOpenTwice: a file that a process has opened twice has two identifiers. An
// mapping event says which file one of them is, not which of the mappings has it: so
// the other identifier is not excluded.
func TestOpenTwice(t *testing.T) {
	one, other := tracefs.HashIdentifier(1), tracefs.HashIdentifier(2)
	const again = "90000-a0000 r-xp 0 fe:00 5 /a\na0000-b0000 rw-p 10000 fe:00 5 /a\n"
	a := &filemap.File{Path: "/a"}
	none := resolve.Unnamed(filemap.Unannounced)
	got := attributed(t, map[int32]string{1: twice(libA + again + libB)},
		witnessed{1, 5e9, one, 0x1000, resolve.Own(a)}, witnessed{1, 5e9, other, 0x1000, none}, witnessed{1, 6e9, one, 0x1000, none})
	if want := "[/a verified unannounced unannounced]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	// Opened once, exclusion says what the other one is.
	got = attributed(t, map[int32]string{1: twice(libA + libB)},
		witnessed{1, 5e9, one, 0x1000, resolve.Own(a)}, witnessed{1, 5e9, other, 0x1000, none}, witnessed{1, 6e9, one, 0x1000, none})
	if want := "[/a verified /b inferred /a verified]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestSplitFile: the frames of an open file need not be in one run of mappings: its code
// can have moved (mremap).
func TestSplitFile(t *testing.T) {
	const head, code = "10000-11000 r--p 0 fe:00 5 /a\n", "70000-80000 r-xp 1000 fe:00 5 /a\n"
	frame := func(offset uint64) witnessed {
		return witnessed{1, 5e9, tracefs.HashIdentifier(3), offset, resolve.Unnamed(filemap.Unannounced)}
	}
	for _, c := range []struct{ maps, want string }{
		{"10000-20000 r-xp 0 fe:00 5 /a\n" + libB, "unannounced"},
		{"10000-12000 r-xp 0 fe:00 5 /a\n" + libB, "/b inferred"}, // it has not the third frame
		{head + libB + code, "unannounced"},
	} {
		for i, got := range attributed(t, map[int32]string{1: twice(c.maps)}, frame(0x100), frame(0x1234), frame(0x2345)) {
			if got != c.want {
				t.Errorf("%q, frame %d: %q, want %q", c.maps, i, got, c.want)
			}
		}
	}
}
