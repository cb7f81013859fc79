package render

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs/text"
)

// mapsSpecimens are two processes with all that is odd.
func mapsSpecimens() []*procmap.Process {
	id, _ := elfid.Parse([]byte("93ac61ec5a8eb1396f9fbd350e3169a558528a40"))
	short, _ := elfid.Parse([]byte("0011223344556677"))
	libc := procmap.Mapping{Start: 0x7f0000001000, End: 0x7f0000002000, Offset: 0x26000, Perms: procmap.Read | procmap.Exec,
		Dev: procmap.Dev{Major: 0xfe}, Inode: 326269, Name: "/usr/lib/libc.so.6", BuildID: id}
	hostile := procmap.Mapping{Start: 0x400000, End: 0x401000, Perms: procmap.Read | procmap.Exec | procmap.Shared,
		Dev: procmap.Dev{Minor: 1}, Inode: 7, Name: "/memfd:a\nb\tc\x1b[31m\xff \"\\ (deleted)", BuildID: short, Kind: procmap.Memfd}
	return []*procmap.Process{
		{PID: 12, Stat: procmap.Stat{Comm: "cat"}, Mappings: []procmap.Mapping{libc}},
		{PID: 4194304, Stat: procmap.Stat{Comm: "ünï\n\x1b[2J x"}, Mappings: []procmap.Mapping{
			hostile, libc, {Start: 0x7fff00000000, End: 0x7fff00001000, Perms: procmap.Read | procmap.Exec, Kind: procmap.Anonymous},
			{Start: 0xffffffffff600000, End: 0xffffffffff601000, Perms: procmap.Exec, Name: "[vsyscall]", Kind: procmap.Vsyscall},
		}},
	}
}

func writeMaps(t *testing.T, w MapsWriter) {
	t.Helper()
	for _, p := range mapsSpecimens() {
		if err := w.Process(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMapsTable(t *testing.T) {
	var out bytes.Buffer
	writeMaps(t, NewMapsTable(NewSanitizer(&out)))
	want := strings.TrimPrefix(`
    PID COMM            RANGE                     PERMS   OFFSET DEV      INODE BUILD-ID                                 PATH
     12 cat             7f0000001000-7f0000002000 r-xp  00026000 fe:00   326269 93ac61ec5a8eb1396f9fbd350e3169a558528a40 /usr/lib/libc.so.6
4194304 ünï\012\033[2J x 00400000-00401000         r-xs  00000000 00:01        7 0011223344556677                         /memfd:a\012b\011c\033[31m\377 "\ (deleted)
4194304 ünï\012\033[2J x 7f0000001000-7f0000002000 r-xp  00026000 fe:00   326269 93ac61ec5a8eb1396f9fbd350e3169a558528a40 /usr/lib/libc.so.6
4194304 ünï\012\033[2J x 7fff00000000-7fff00001000 r-xp  00000000 00:00        0 -                                        [anon]
4194304 ünï\012\033[2J x ffffffffff600000-ffffffffff601000 --xp  00000000 00:00        0 -                                        [vsyscall]
`, "\n")
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMapsFiles(t *testing.T) {
	var out bytes.Buffer
	writeMaps(t, NewMapsFiles(NewSanitizer(&out), false))
	want := strings.TrimPrefix(`
PROCESSES DEV      INODE BUILD-ID                                 PATH
        2 fe:00   326269 93ac61ec5a8eb1396f9fbd350e3169a558528a40 /usr/lib/libc.so.6
        1 00:01        7 0011223344556677                         /memfd:a\012b\011c\033[31m\377 "\ (deleted)
`, "\n")
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	writeMaps(t, NewMapsFiles(&out, true))
	want = `{"processes":2,"mappings":2,"dev":"fe:00","inode":326269,"build_id":"93ac61ec5a8eb1396f9fbd350e3169a558528a40","path":"/usr/lib/libc.so.6","kind":"file"}` + "\n"
	if got := out.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMapsJSON(t *testing.T) {
	var out bytes.Buffer
	writeMaps(t, NewMapsJSON(&out))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	want := `{"pid":12,"comm":"cat","start":"0x7f0000001000","end":"0x7f0000002000","perms":"r-xp","offset":"0x26000","dev":"fe:00","inode":326269,` +
		`"build_id":"93ac61ec5a8eb1396f9fbd350e3169a558528a40","path":"/usr/lib/libc.so.6","kind":"file"}`
	if lines[0] != want {
		t.Errorf("got\n%s\nwant\n%s", lines[0], want)
	}
	for _, line := range lines {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if strings.ContainsAny(line, "\x1b\t") {
			t.Errorf("control characters in %q", line)
		}
		for _, key := range []string{"pid", "comm", "start", "end", "perms", "offset", "dev", "inode", "build_id", "path", "kind"} {
			if _, ok := row[key]; !ok {
				t.Errorf("no %s in %s", key, line)
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		a := NewAddresses(&out, asJSON)
		p := mapsSpecimens()[1]
		for i := range p.Mappings {
			if err := a.Address(p, p.Mappings[i].Start+0x10, &p.Mappings[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Address(p, 0, nil); err != nil {
			t.Fatal(err)
		}
		if err := a.Flush(); err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if !asJSON {
			want := []string{
				"0x400010 0x10 0011223344556677 /memfd:a\\012b\\011c\\033[31m\xff \"\\ (deleted)",
				"0x7f0000001010 0x26010 93ac61ec5a8eb1396f9fbd350e3169a558528a40 /usr/lib/libc.so.6",
				"0x7fff00000010 - - [anon]", "0xffffffffff600010 - - [vsyscall]", "0x0 - - no-vma",
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n%q\nwant\n%q", got, want)
			}
			continue
		}
		var row struct {
			Address, Offset, Reason string
		}
		if err := json.Unmarshal([]byte(got[1]), &row); err != nil || row.Address != "0x7f0000001010" || row.Offset != "0x26010" {
			t.Errorf("%v: %s", err, got[1])
		}
		if err := json.Unmarshal([]byte(got[4]), &row); err != nil || row.Reason != "no-vma" {
			t.Errorf("%v: %s", err, got[4])
		}
	}
}

func TestMapsDump(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	d := NewMapsDump(&out, now)
	want := map[string][]string{}
	for _, p := range mapsSpecimens() {
		head := procmap.Head{Time: 5_000_000_001, PID: p.PID, Comm: p.Stat.Comm, Exe: "/x"}
		mappings := append(p.Mappings, p.Mappings...)
		if err := d.Process(head, mappings); err != nil {
			t.Fatal(err)
		}
		d.Threads(p.PID, []int{p.PID, p.PID + 1})
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(now) {
			t.Errorf("%s is of %v", h.Name, h.ModTime)
		}
		want[h.Name] = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	}
	if got := strings.Join(want["tids.txt"], ","); got != "12 12,13 12,4194304 4194304,4194305 4194304" {
		t.Errorf("threads: %s", got)
	}
	for _, p := range mapsSpecimens() {
		lines := want[map[int]string{12: "12.maps", 4194304: "4194304.maps"}[p.PID]]
		var mappings []procmap.Mapping
		ids := map[procmap.FileID]elfid.ID{}
		for i, line := range lines {
			if i == 0 {
				if line+"\n" != text.Head {
					t.Errorf("begins with %q", line)
				}
			} else if i == 1 {
				h, err := procmap.ParseHead([]byte(line))
				if wanted := (procmap.Head{Time: 5_000_000_001, PID: p.PID, Comm: p.Stat.Comm, Exe: "/x"}); err != nil || h != wanted {
					t.Errorf("head %+v, %v", h, err)
				}
			} else if file, id, ok := procmap.ParseBuildID([]byte(line)); ok {
				if _, twice := ids[file]; twice {
					t.Errorf("the build ID of %v comes twice", file)
				}
				ids[file] = id
			} else if m, err := procmap.ParseSaved([]byte(line)); err != nil {
				t.Error(err)
			} else {
				mappings = append(mappings, m)
			}
		}
		if len(mappings) != 2*len(p.Mappings) {
			t.Fatalf("%d mappings of process %d", len(mappings), p.PID)
		}
		for i, m := range mappings {
			m.BuildID = ids[procmap.FileID{Dev: m.Dev, Inode: m.Inode}]
			if m != p.Mappings[i%len(p.Mappings)] {
				t.Errorf("got %+v\nwant %+v", m, p.Mappings[i%len(p.Mappings)])
			}
		}
	}
}

func TestMapsCounts(t *testing.T) {
	for _, test := range []struct {
		c           procmap.Counts
		may, hidden bool
		want        string
	}{
		{procmap.Counts{Processes: 5, NoMemory: 60}, false, false, ""},
		{procmap.Counts{Denied: 3}, false, false, "ustack maps: not permitted to read 3 processes of others: that needs CAP_SYS_PTRACE\n"},
		{procmap.Counts{Denied: 1}, true, false, "ustack maps: not permitted to read 1 processes, in spite of CAP_SYS_PTRACE\n"},
		{procmap.Counts{Gone: 2, Failed: 1, Err: io.ErrUnexpectedEOF}, false, true,
			"ustack maps: processes of other users may be missing: proc is mounted with hidepid\n" +
				"ustack maps: 2 processes ended before they were read\n" +
				"ustack maps: 1 processes could not be read, the first: unexpected EOF\n"},
	} {
		var out bytes.Buffer
		WriteMapsCounts(&out, &test.c, test.may, test.hidden)
		if out.String() != test.want {
			t.Errorf("%+v gives\n%s\nwant\n%s", test.c, out.String(), test.want)
		}
	}
}
