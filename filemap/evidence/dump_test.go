package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ustack/tracefs"
)

// TestDumpBounds: a dump may come from a stranger, and be small by compression.
func TestDumpBounds(t *testing.T) {
	const head = "### t=1 pid=7 comm=x exe=/x\n"
	for what, text := range map[string]string{
		"versions":  strings.Repeat(head, maxVersions+1),
		"mappings":  head + strings.Repeat("0-1 r-xp 0 0:0 0\n", maxMappings+1),
		"build IDs": head + strings.Repeat("# fe:00 5 build_id=11\n", maxMappings+1),
	} {
		if err := newDump().maps(strings.NewReader(text), 7); !errors.Is(err, errTooMuch) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var names bytes.Buffer
	long := strings.Repeat("n", maxLine/2)
	for i := range 2*maxNames/maxLine + 2 {
		fmt.Fprintf(&names, "0-1 r-xp 0 0:0 %d /%s\n", i+1, long)
	}
	if err := newDump().maps(&names, 7); !errors.Is(err, errTooMuch) {
		t.Errorf("names: %v", err)
	}
	if err := newDump().maps(strings.NewReader(head+strings.Repeat("x", 2*maxLine)), 7); err == nil || !strings.Contains(err.Error(), "line 2: ") {
		t.Errorf("a line without end: %v", err)
	}
}

// TestManyGenerations: an inode that has been a hundred thousand files is read as
// fast as so many files.
func TestManyGenerations(t *testing.T) {
	var text bytes.Buffer
	const files = 100_000
	for i := range files {
		fmt.Fprintf(&text, "### t=%d.0 pid=1 comm=a exe=/a\n1000-2000 r-xp 0 fe:00 5 /a\n# fe:00 5 build_id=%040x\n", i, i+1)
	}
	d := newDump()
	if err := d.maps(&text, 1); err != nil {
		t.Fatal(err)
	}
	if n := len(d.files[fileKey{d.spaces[1][0].maps[0].file.key.dev, 5, "/a"}].generations); n != files || len(d.spaces[1]) != files {
		t.Errorf("%d files, %d versions", n, len(d.spaces[1]))
	}
}

// TestLineages: one place of the vDSO is one program, if places are random.
func TestLineages(t *testing.T) {
	space := func(pid int, exe string, vdso int) string {
		return fmt.Sprintf("### t=1 pid=%d comm=x exe=%s\n1000-2000 r-xp 0 fe:00 5 %s\n%x-%x r-xp 0 00:00 0 [vdso]\n", pid, exe, exe, vdso, vdso+0x2000)
	}
	for _, test := range []struct {
		what   string
		spaces []string
		same   bool
	}{
		{"fork", []string{space(1, "/a", 0x10000), space(2, "/a", 0x10000)}, true},
		{"deleted meanwhile", []string{space(1, "/a", 0x10000), space(2, "/a (deleted)", 0x10000)}, true},
		{"two programs", []string{space(1, "/a", 0x10000), space(2, "/a", 0x20000)}, false},
		{"no random places", []string{space(1, "/a", 0x10000), space(2, "/a", 0x10000), space(3, "/b", 0x10000)}, false},
	} {
		d := newDump()
		for i, s := range test.spaces {
			if err := d.maps(strings.NewReader(s), int32(i)); err != nil {
				t.Fatal(err)
			}
		}
		d.order()
		if got := d.spaces[1][0].lineage == d.spaces[2][0].lineage; got != test.same {
			t.Errorf("%s: one program is %v", test.what, got)
		}
	}
}

// TestGenerations: a file that is replaced by another one of the same name and
// inode number does not get that one's build ID.
func TestGenerations(t *testing.T) {
	const line = "1000-2000 r-xp 0 fe:00 5 /lib/x\n"
	d := newDump()
	for pid, text := range map[int32]string{
		1: "### t=1 pid=1 comm=x exe=/x\n" + line + "# fe:00 5 build_id=01\n### t=2 pid=1 comm=x exe=/x\n" + line + "# fe:00 5 build_id=02\n### t=3 pid=1 comm=x exe=/x\n" + line,
		2: "### t=1 pid=2 comm=x exe=/x\n" + line + "# fe:00 5 build_id=01\n",
		3: "### t=1 pid=3 comm=x exe=/x\n1000-2000 r-xp 0 fe:00 6 /lib/y\n# fe:00 6 build_id=03\n",
		4: "### t=1 pid=4 comm=x exe=/x\n1000-2000 r-xp 0 fe:00 6 /lib/y\n",
	} {
		if err := d.maps(strings.NewReader(text), pid); err != nil {
			t.Fatal(err)
		}
	}
	d.identify()
	d.order()
	file := func(pid int32, version int) *mapped { return d.spaces[pid][version].maps[0].file }
	if file(1, 0).id[0] != 1 || file(1, 1).id[0] != 2 || file(1, 2).hasID || file(2, 0) != file(1, 0) {
		t.Errorf("replaced: %x, %x, %v; the other process: %x", file(1, 0).id, file(1, 1).id, file(1, 2).hasID, file(2, 0).id)
	}
	if file(4, 0) != file(3, 0) {
		t.Error("one file whose build ID only one process could tell is two")
	}
}

// FuzzDump: any text is a dump or an error, and can be asked.
func FuzzDump(f *testing.F) {
	f.Add([]byte("### t=1.5 pid=7 comm=x exe=/x\n00001000-00002000 r-xp 00000000 fe:00 11  /x\n# fe:00 11 build_id=00ff\n"))
	f.Add([]byte("1000-2000 r-xp 0 0:0 0 [vdso]\n### t=2 pid=7 comm= exe=\n### t=1 pid=7 comm=y exe=/x (deleted)\n"))
	f.Add([]byte("7 7\n8 7\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := newDump()
		_ = d.threads(bytes.NewReader(text))
		if d.maps(bytes.NewReader(text), 7) != nil {
			return
		}
		d.order()
		for pid, versions := range d.spaces {
			for i := range versions {
				if versions[i].lineage == 0 || i > 0 && versions[i-1].at > versions[i].at {
					t.Fatalf("process %d: %+v", pid, versions)
				}
				for _, at := range []tracefs.Time{versions[i].at - 1, versions[i].at, versions[i].at + slack + 1} {
					near, _ := d.near(pid, at, true)
					mappingIn(d.named(near, pid, []byte("x")), 0x1800)
				}
			}
		}
	})
}
