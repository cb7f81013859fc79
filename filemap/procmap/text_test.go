package procmap

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"ustack/filemap/elfid"
)

func TestParseLine(t *testing.T) {
	for _, test := range []struct {
		line string
		want Mapping
	}{
		{"56177a6d7000-56177a798000 r-xp 0002f000 fe:00 26                         /bin/bash",
			Mapping{Start: 0x56177a6d7000, End: 0x56177a798000, Perms: Read | Exec, Offset: 0x2f000, Dev: Dev{0xfe, 0}, Inode: 26, Name: "/bin/bash"}},
		{"56177a7dd000-56177a7e8000 rw-p 00000000 00:00 0 ",
			Mapping{Start: 0x56177a7dd000, End: 0x56177a7e8000, Perms: Read | Write, Kind: Anonymous}},
		{"56177a7dd000-56177a7e8000 rw-p 00000000 00:00 0",
			Mapping{Start: 0x56177a7dd000, End: 0x56177a7e8000, Perms: Read | Write, Kind: Anonymous}},
		{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
			Mapping{Start: 0xffffffffff600000, End: 0xffffffffff601000, Perms: Exec, Name: "[vsyscall]", Kind: Vsyscall}},
		{"7f0000000000-7f0000001000 ---s 7fffffff000 103:12b 18446744073709551615  /a  b ",
			Mapping{Start: 0x7f0000000000, End: 0x7f0000001000, Perms: Shared, Offset: 0x7fffffff000, Dev: Dev{0x103, 0x12b},
				Inode: 1<<64 - 1, Name: "/a  b "}},
		{"ffffffffffffe000-fffffffffffff000 r--p 1000000000000000 fffff:fffff 18446744073709551615  /wide",
			Mapping{Start: 0xffffffffffffe000, End: 0xfffffffffffff000, Perms: Read, Offset: 1 << 60, Dev: Dev{0xfffff, 0xfffff},
				Inode: 1<<64 - 1, Name: "/wide"}},
		{"08048000-08049000 r-xp 00000000 08:01 12        /32 bits",
			Mapping{Start: 0x8048000, End: 0x8049000, Perms: Read | Exec, Dev: Dev{8, 1}, Inode: 12, Name: "/32 bits"}},
		{`7f0000000000-7f0000001000 r--p 00000000 fe:00 9                          /nl\012x\134y\01`,
			Mapping{Start: 0x7f0000000000, End: 0x7f0000001000, Perms: Read, Dev: Dev{0xfe, 0}, Inode: 9, Name: "/nl\nx\\134y\\01"}},
		{"7f0000000000-7f0000001000 r--p 00000000 00:01 9                          /memfd:x (deleted)\n",
			Mapping{Start: 0x7f0000000000, End: 0x7f0000001000, Perms: Read, Dev: Dev{0, 1}, Inode: 9, Name: "/memfd:x (deleted)", Kind: Memfd}},
	} {
		got, err := ParseLine([]byte(test.line))
		if err != nil || got != test.want {
			t.Errorf("%q\ngives %+v, %v\nwant  %+v", test.line, got, err, test.want)
		}
	}
	for _, line := range []string{
		"", "\n", "a", "1000-2000", "1000-2000 r-xp", "2000-1000 r-xp 0 0:0 0 ", "1000-1000 r-xp 0 0:0 0 ",
		"1000-2000 rwxq 00000000 00:00 0 ", "1000-2000 r-x 00000000 00:00 0 ", "1000-2000 wr-p 00000000 00:00 0 ",
		"1000-2000 r-xp 00000000 00:00 ", "1000-2000 r-xp 00000000 00:00 x ", "1000-2000 r-xp 00000000 0000 0 ",
		"10000000000000000-20000000000000000 r-xp 00000000 00:00 0 ", "1000-2000 r-xp 00000000 100000000:00 0 ",
		"1000-2000 r-xp 00000000 00:00 18446744073709551616 /x", "1000-2000 r-xp 00000000 00:00 99999999999999999999 /x",
		"-2000 r-xp 00000000 00:00 0 ", "1000- r-xp 00000000 00:00 0 ", "### t=1 pid=2 comm= exe=", "# fe:00 1 build_id=aa",
		"0x1000-0x2000 r-xp 00000000 00:00 0 ", "A000-B000 r-xp 00000000 00:00 0 ",
	} {
		if m, err := ParseLine([]byte(line)); err == nil {
			t.Errorf("%q is taken for a mapping: %+v", line, m)
		}
	}
}

// FuzzParseLine: nothing makes it fail badly, and what it reads it writes as
// the kernel does, so that reading it again gives the same.
func FuzzParseLine(f *testing.F) {
	lines, _ := rawLines(os.Getpid(), "")
	for _, line := range lines {
		f.Add([]byte(line))
	}
	f.Add([]byte("1000-2000 r-xp 00000000 00:00 0"))
	f.Add([]byte(`ffffffffffffe000-fffffffffffff000 r--p 1000000000000000 fffff:fffff 18446744073709551615  /wi\012de`))
	// The numbers end one before the column of the name.
	f.Add([]byte("ffffffffffffe000-fffffffffffff000 r--p 1000000000000000 fffff:fffff 1844 /one before"))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := ParseLine(line)
		if err != nil {
			return
		}
		if m.End <= m.Start || len(m.Name) > len(line) || m.Kind > Anonymous {
			t.Fatalf("%q gives %+v", line, m)
		}
		// Blanks at the beginning of a name belong to the column, which may be
		// any.
		if strings.HasPrefix(m.Name, " ") {
			return
		}
		again, err := ParseLine(m.AppendText(nil))
		if err != nil || again != m {
			t.Fatalf("%q gives %+v, written and read again %+v, %v", line, m, again, err)
		}
	})
}

func TestParseStat(t *testing.T) {
	for _, test := range []struct {
		line, comm string
		want       Stat
	}{
		{"1 (a) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1 1\n", "a", Stat{State: 'S', StartTime: 99}},
		{"1 () R 2) (x) Z 0 1 1 0 -1 2129984 1 2 3 4 5 6 7 8 20 0 1 0 5 1", ") R 2) (x", Stat{State: 'Z', StartTime: 5, KernelThread: true}},
		{"1 (a\nb) S 0 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 18446744073709551615 1", "a\nb", Stat{State: 'S', StartTime: 1<<64 - 1}},
		{"1 () S 0 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 7 1", "", Stat{State: 'S', StartTime: 7}},
		{"3 (a) S 2 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 7 1", "a", Stat{Parent: 2, State: 'S', StartTime: 7}},
	} {
		s, comm, ok := parseStat([]byte(test.line))
		if !ok || s != test.want || string(comm) != test.comm {
			t.Errorf("%q gives %+v, %q, %v", test.line, s, comm, ok)
		}
	}
	for _, line := range []string{"", "1", "1 (a", "1 a) S", ")(", "1 (a) S 0 1", "1 (a) S 0 1 1 0 -1 x 1 2 3 4 5 6 7 8 20 0 1 0 7 1",
		"1 (a) S 0 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 7x 1", "1 (a) S 0 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0"} {
		if s, _, ok := parseStat([]byte(line)); ok {
			t.Errorf("%q is taken for a state: %+v", line, s)
		}
	}
}

// TestTaskComm: what /proc adds to the names of the kernel's threads is not part
// of them.
func TestTaskComm(t *testing.T) {
	for _, test := range []struct {
		comm   string
		kernel bool
		want   string
	}{
		{"kworker/0:1-events", true, "kworker/0:1"}, {"kworker/u8:2+flush-8:0", true, "kworker/u8:2"}, {"kworker/1:0H-kblockd", true, "kworker/1:0H"},
		{"kworker/R-scsi_tmf_0", true, "kworker/R-scsi_"}, {"kworker/0:1-mine", false, "kworker/0:1-min"}, {"kworker/0:1", true, "kworker/0:1"},
		{"jbd2/dm-12-8-long", true, "jbd2/dm-12-8-lo"}, {"a\nb-c+d", false, "a\nb-c+d"}, {"", false, ""},
	} {
		s := Stat{Comm: test.comm, KernelThread: test.kernel}
		if got := s.TaskComm(); got != test.want {
			t.Errorf("%q (of the kernel: %v) is %q, want %q", test.comm, test.kernel, got, test.want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 () R 2) (x) Z 0 1 1 0 -1 2129984 1 2 3 4 5 6 7 8 20 0 1 0 5 1"))
	f.Fuzz(func(t *testing.T, line []byte) { parseStat(line) })
}

func TestParseMount(t *testing.T) {
	for _, test := range []struct {
		line string
		dev  Dev
		kind string
		ok   bool
	}{
		{"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n", Dev{98, 0}, "ext3", true},
		{"36 35 0:45 /@ / rw - btrfs /dev/sda2 rw,subvol=/@\n", Dev{0, 45}, "btrfs", true},
		{"36 35 0:50 / /x\\040- rw - overlay overlay rw\n", Dev{0, 50}, "overlay", true},
		{"36 35 0:50 / /x rw overlay overlay rw\n", Dev{}, "", false},
		{"36 35 050 / /x rw - overlay overlay rw\n", Dev{}, "", false},
		{"36 35 8:1 / /x rw - fuseblk.ntfs\\0403g /dev/sda1 rw\n", Dev{8, 1}, `fuseblk.ntfs\0403g`, true},
		{"", Dev{}, "", false},
	} {
		if dev, kind, ok := parseMount([]byte(test.line)); dev != test.dev || kind != test.kind || ok != test.ok {
			t.Errorf("%q gives %v, %q, %v", test.line, dev, kind, ok)
		}
	}
}

// TestSystemOf: what can keep a reader, or change unseen, is not taken for a disk.
func TestSystemOf(t *testing.T) {
	disk, none := Dev{8, 1}, Dev{0, 50}
	for _, test := range []struct {
		kind string
		dev  Dev
		want fileSystem
	}{
		{"ext4", disk, fileSystem{apart: true, watched: true, disk: true}},
		{"vfat", disk, fileSystem{apart: true, disk: true}},
		{"ubifs", none, fileSystem{apart: true, watched: true}},
		{"tmpfs", none, fileSystem{apart: true, watched: true}},
		{"overlay", none, fileSystem{}},
		{"btrfs", none, fileSystem{}},
		{"fuse.sshfs", none, fileSystem{}},
		{"fuse", none, fileSystem{}},
		{"fuseblk", disk, fileSystem{}},
		{"nfs4", none, fileSystem{apart: true}},
		{"9p", none, fileSystem{}},
		{"virtiofs", none, fileSystem{}},
		{"zfs", none, fileSystem{apart: true}},
	} {
		if got := systemOf(test.kind, test.dev); got != test.want {
			t.Errorf("%s on %v is %+v, want %+v", test.kind, test.dev, got, test.want)
		}
	}
}

func TestHead(t *testing.T) {
	for _, h := range []Head{
		{Time: 58193790543, PID: 2843, Comm: "labcap", Exe: "/bin/bash"},
		{Time: 6156774846, PID: 124, Comm: "svc", Exe: "/srv/app/svc (deleted)"},
		{Time: 0, PID: 1, Comm: "", Exe: ""},
		{Time: 1, PID: 1, Comm: "a b", Exe: "/x exe=/y"},
		{Time: 1<<62 + 5, PID: 4194304, Comm: "a\n exe=/b\\\x1b", Exe: "/x\n### t=9\x00\\012\xff"},
	} {
		line := h.Append(nil)
		if bytes.ContainsAny(line, "\n\x1b\x00") {
			t.Errorf("control characters in %q", line)
		}
		got, err := ParseHead(append(line, '\n'))
		if err != nil || got != h {
			t.Errorf("%+v is written as %q and read as %+v, %v", h, line, got, err)
		}
	}
	// As in the captures, whose comms are raw.
	got, err := ParseHead([]byte("### t=12.704397447 pid=356 comm= exe=\n"))
	if want := (Head{Time: 12704397447, PID: 356}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, line := range []string{"", "###", "### t=", "### t=x pid=1 comm= exe=", "### t=1.1234567890 pid=1 comm= exe=", "### t=1 pid=x comm= exe=",
		"### t=1 pid=1 comm=", "### t=1 pid=-1 comm= exe=", "### t=1", "### t=-1 pid=1 comm= exe=", "### t=1.-5 pid=1 comm= exe="} {
		if h, err := ParseHead([]byte(line)); err == nil {
			t.Errorf("%q is taken for a head: %+v", line, h)
		}
	}
}

func TestBuildIDLine(t *testing.T) {
	file := FileID{Dev{0xfe, 0x10}, 1<<64 - 1}
	for _, hex := range []string{"aa", "93ac61ec5a8eb1396f9fbd350e3169a558528a40", "0011223344556677"} {
		id, ok := elfid.Parse([]byte(hex))
		if !ok {
			t.Fatal(hex)
		}
		line := AppendBuildID(nil, file, id)
		if want := "# fe:10 18446744073709551615 build_id=" + hex; string(line) != want {
			t.Errorf("the line is %q, want %q", line, want)
		}
		if f, got, ok := ParseBuildID(append(line, '\n')); !ok || f != file || got != id {
			t.Errorf("%q is read as %v, %v, %v", line, f, got, ok)
		}
	}
	for _, line := range []string{"", "# ", "# fe:00 1", "# fe:00 1 build_id=", "# fe:00 1 build_id=a", "# fe:00 1 build_id=xx", "### t=1 pid=1",
		"# fe:00 x build_id=aa", "# fe:00 1 build_id=" + strings.Repeat("a", 42)} {
		if f, id, ok := ParseBuildID([]byte(line)); ok {
			t.Errorf("%q is taken for a build ID: %v %v", line, f, id)
		}
	}
}

func FuzzDumpLines(f *testing.F) {
	f.Add([]byte("### t=12.704397447 pid=356 comm=a exe=/b"))
	f.Add([]byte("# fe:00 1 build_id=aa"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if h, err := ParseHead(line); err == nil {
			if again, err := ParseHead(h.Append(nil)); err != nil || again != h {
				t.Fatalf("%q gives %+v, then %+v, %v", line, h, again, err)
			}
		}
		ParseBuildID(line)
	})
}

// TestTextBounds: malformed text of mappings does no harm.
func TestTextBounds(t *testing.T) {
	long := "7f0000000000-7f0000001000 r--p 00000000 fe:00 9                          /" + strings.Repeat("x", 3<<20)
	next := "7f0000001000-7f0000002000 r--p 00000000 fe:00 9                          /y"
	for _, test := range []struct {
		text string
		want int
	}{
		{"\n\n\nnonsense\n" + next + "\n", 1}, {next, 0}, {long + "\n" + next + "\n", 2}, {next + "\n" + long, 2},
		{strings.Repeat("\x00", 5<<20), 0},
	} {
		proc := t.TempDir()
		if err := os.MkdirAll(proc+"/7", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(proc+"/7/maps", []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		r := needText(t, Options{Proc: proc})
		var p Process
		if err := r.Process(7, &p); err != nil {
			t.Fatal(err)
		}
		if len(p.Mappings) != test.want {
			t.Errorf("%d mappings of %.40q…, want %d", len(p.Mappings), test.text, test.want)
		}
		if len(r.text) > 2*maxLine {
			t.Errorf("the buffer has grown to %d bytes", len(r.text))
		}
	}
}

func TestParseSource(t *testing.T) {
	for s := Auto; s <= Text; s++ {
		if got, err := ParseSource(s.String()); got != s || err != nil {
			t.Errorf("%v is read as %v, %v", s, got, err)
		}
	}
	if _, err := ParseSource("both"); err == nil {
		t.Error("no error for an unknown source")
	}
}
