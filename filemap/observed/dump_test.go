package observed

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/text"
)

// TestDumpBounds: a dump is untrusted, and may be small by compression.
func TestDumpBounds(t *testing.T) {
	capturetest.SkipShort(t)
	const head = "### t=1 pid=7 comm=x exe=/x\n"
	for what, line := range map[string]string{"mappings": "0-1 r-xp 0 0:0 0\n", "build IDs": "# fe:00 5 build_id=11\n", "versions": head} {
		many := maxMappings
		if line == head {
			many = maxVersions
		} else if capturetest.Brief() {
			continue // four millions
		}
		dump := head + strings.Repeat(line, many+1)
		if err := newDump().maps(strings.NewReader(dump), 7); !errors.Is(err, errTooMuch) {
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

// TestEscapedNames: names in a dump of ours are what they were; in one of a poller
// they are as the kernel has written them. Another version is refused.
func TestEscapedNames(t *testing.T) {
	names := []string{"/a\nb\t\x1b", `/a\012b`, `/C:\x`, "/memfd:\x7f (deleted)", "[anon:x]"}
	var own, foreign []byte
	own = append(own, text.Head...)
	for i, name := range names {
		m := procmap.Mapping{Start: uint64(i+1) << 12, End: uint64(i+2) << 12, Perms: procmap.Exec, Inode: uint64(5 + i), Name: name}
		own = append(m.AppendSaved(own), '\n')
		foreign = append(m.AppendText(foreign), '\n')
	}
	for what, c := range map[string]struct {
		text []byte
		want string
	}{"ours": {own, strings.Join(names, "|")}, "a poller's": {foreign, strings.ReplaceAll(strings.Join(names, "|"), `\012`, "\n")}} {
		file := filepath.Join(t.TempDir(), "7.maps")
		if err := os.WriteFile(file, append([]byte{}, c.text...), 0o600); err != nil {
			t.Fatal(err)
		}
		d := newDump()
		if err := d.maps(bytes.NewReader(c.text), 7); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range d.spaces[7][0].maps {
			got = append(got, m.file.name)
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
		if what == "ours" {
			if _, err := Load(file); err != nil {
				t.Errorf("as a file: %v", err)
			}
		}
	}
	if err := newDump().maps(strings.NewReader("# ustack: escaped=7\n"), 7); err == nil || !strings.Contains(err.Error(), "later version") {
		t.Errorf("another version: %v", err)
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

// TestRuns: what stays from one version of a process to the next, and what is
// another mapping, or another program.
func TestRuns(t *testing.T) {
	const a = "10000-11000 r--p 0 fe:00 5 /a\n11000-12000 r-xp 1000 fe:00 5 /a\n"
	const vdso = "70000-72000 r-xp 0 00:00 0 [vdso]\n"
	for _, test := range []struct {
		what, first, second string
		stays               bool
	}{
		{"the same", a + vdso, a + vdso, true},
		{"deleted meanwhile", a + vdso, strings.ReplaceAll(a, "/a", "/a (deleted)") + vdso, true},
		{"another file", a + vdso, strings.ReplaceAll(a, " 5 ", " 6 ") + vdso, false},
		{"elsewhere", a + vdso, "20000-21000 r--p 0 fe:00 5 /a\n" + vdso, false},
		{"another program", a + vdso, a + "80000-82000 r-xp 0 00:00 0 [vdso]\n", false},
		{"a part was unmapped", a + vdso, "11000-12000 r-xp 1000 fe:00 5 /a\n" + vdso, true},
	} {
		d := newDump()
		text := "### t=1 pid=1 comm=x exe=/x\n" + test.first + "### t=2 pid=1 comm=x exe=/x\n" + test.second
		if err := d.maps(strings.NewReader(text), 1); err != nil {
			t.Fatal(err)
		}
		d.order()
		v, w := &d.spaces[1][0], &d.spaces[1][1]
		if len(v.runs) != 1 || len(w.runs) != 1 || (v.runs[0] == w.runs[0]) != test.stays {
			t.Errorf("%s: %+v, then %+v", test.what, v.runs, w.runs)
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
		t.Error("one file whose build ID only one process has is two")
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
				if versions[i].program == nil || i > 0 && versions[i-1].at > versions[i].at {
					t.Fatalf("process %d: %+v", pid, versions)
				}
				for _, at := range []tracefs.Time{versions[i].at - 1, versions[i].at, versions[i].at + slack + 1} {
					m := d.at(pid, at, true, []byte("x"))
					mappingIn(m.versions, &proof.Address{Addr: 0x1800})
					for _, offset := range []uint64{0, 0x1800, 1<<64 - 1} {
						m.candidates(offset)
						m.find(offset, func(v *version) []*run { return v.called(&filemap.File{Path: "/x"}) })
					}
				}
			}
		}
	})
}
