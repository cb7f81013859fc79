package binary

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/ring"
	"ustack/tracefs/text"
)

// reread reads text that a Source has printed.
func reread(t *testing.T, txt []byte) []view {
	t.Helper()
	s := text.NewScanner()
	s.Events = true
	s.UseEscapes()
	b := tracefs.Batch{Text: bytes.Clone(txt)}
	if used, err := s.Scan(&b, text.MoreNever); err != nil || used != len(txt) {
		t.Fatalf("read %d of %d bytes: %v", used, len(txt), err)
	}
	return viewsOf(&b)
}

// sameViews fails unless what was printed is what is read.
func sameViews(t *testing.T, read, printed []view) {
	t.Helper()
	for i := range min(len(read), len(printed)) {
		if !reflect.DeepEqual(read[i], printed[i]) {
			t.Fatalf("record %d is read as\n%+v, not as\n%+v", i, read[i], printed[i])
		}
	}
	if len(read) != len(printed) {
		t.Fatalf("%d records are read, not %d", len(read), len(printed))
	}
}

// TestReread: what is printed of pages is read as the same records.
func TestReread(t *testing.T) {
	eachRaw(t, func(t *testing.T, _ string, dir *Dir) {
		all := readAll(t, dir.Source(Options{Events: true}, nil))
		sameViews(t, reread(t, all.text), all.views)
	})
}

// strange is a kernel whose records are full of strings.
func strange() *Kernel {
	loc := func(name string, off int) format.Field {
		return format.Field{Type: "char", Name: name, Offset: off, Size: 4, Array: true, Loc: format.DataLoc}
	}
	number := func(name string, off int) format.Field {
		return format.Field{Type: "unsigned long", Name: name, Offset: off, Size: 8}
	}
	long := func(name string, off int) format.Field {
		return format.Field{Type: "int", Name: name, Offset: off, Size: 4, Signed: true}
	}
	return &Kernel{
		Layout: ring.Layout{Page: *format.DefaultPage()},
		Events: []*format.Event{
			{System: "sched", Name: "sched_process_exec", ID: 1, Common: usual(), Size: 20, PrintFmt: `"filename=%s pid=%d old_pid=%d", __get_str(filename), REC->pid, REC->old_pid`,
				Fields: []format.Field{loc("filename", 8), long("pid", 12), long("old_pid", 16)}},
			{System: "ftrace", Name: "print", ID: 2, Common: usual(), Fields: []format.Field{number("ip", 8), {Type: "char", Name: "buf", Offset: 16, Array: true}}},
			{System: "syscalls", Name: "sys_enter_unlink", ID: 3, Common: usual(), PrintFmt: `"%s", __get_str(__pathname_val)`,
				Fields: []format.Field{{Type: "int", Name: "__syscall_nr", Offset: 8, Size: 4}, number("pathname", 16), loc("__pathname_val", 24)}},
			{System: "maps", Name: "file_map", ID: 4, Common: usual(), Size: 32, PrintFmt: `"hash=0x%x path=%s build_id=%s", REC->hash, __get_str(path), __print_array(REC->build_id, 5, 4)`,
				Fields: []format.Field{long("hash", 8), loc("path", 12), {Type: "u32", Name: "build_id", Offset: 16, Size: 20, Len: 5, Array: true}}},
			{System: "maps", Name: "inode_cache", ID: 5, Common: usual(), Size: 24, PrintFmt: `"inode=%lu dev=[%u:%u] path=%s", REC->inode, REC->dev, REC->dev, __get_str(path)`,
				Fields: []format.Field{number("inode", 8), long("dev", 16), loc("path", 20)}},
			{System: "own", Name: "by_fields", ID: 6, Common: usual(), Size: 12, PrintFmt: `"%s", no_such_function(REC->name)`, Fields: []format.Field{loc("name", 8)}},
			{System: "ftrace", Name: "user_stack", ID: 7, Common: usual(), Fields: []format.Field{{Type: "unsigned int", Name: "tgid", Offset: 8, Size: 4},
				{Type: "unsigned long", Name: "caller", Offset: 16, Size: 64, Len: 8, Array: true}}},
		},
	}
}

// strangeRecords are a record of each event with a string in it, and what is to be
// read of its arguments.
func strangeRecords(name string) (records [][]byte, args []string) {
	u32 := func(b []byte, values ...uint32) []byte {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	at := func(off int) uint32 { return uint32(off | (len(name)+1)<<16) }
	data := name + "\x00"
	id := u32(nil, 1, 2, 3, 4, 5)
	records = [][]byte{
		append(u32(entry(1, 0, 0, 7), at(20), 5, 6), data...),
		append(words(entry(2, 0, 0, 7), 0), data...),
		append(u32(words(u32(entry(3, 0, 0, 7), 87, 0), 0x1000), at(28)), data...),
		append(append(u32(entry(4, 0, 0, 7), 0xa, at(36)), id...), data...),
		append(u32(words(entry(5, 0, 0, 7), 9), 254, at(24)), data...),
		append(u32(entry(6, 0, 0, 7), at(12)), data...),
		words(u32(entry(7, 0, 0, 7), 7, 0), 0x1234, 0x5678, 0, 0, 0, 0, 0, 0),
	}
	return records, []string{"filename=" + name + " pid=5 old_pid=6", strings.TrimSuffix(name, "\n"), `pathname: 0x1000 "` + name + `"`, "", "", "name=" + name, ""}
}

// pathMax is PATH_MAX, of the kernel's limits.h: names have one byte less.
const pathMax = 4096

// checkStrange prints records with strings, by a task with such a name, and reads
// what was printed.
func checkStrange(t *testing.T, comm, name string) {
	t.Helper()
	comm, _, _ = strings.Cut(comm, "\x00")
	name, _, _ = strings.Cut(name, "\x00")
	name = name[:min(len(name), pathMax-1)]
	k := strange()
	k.Comms = map[int32]string{7: cutComm(comm)}
	p := newPrinter(k)
	p.want(Options{Events: true, NoTemplates: true})
	var b tracefs.Batch
	b.Escaped = true
	b.Heads = p.heads
	records, args := strangeRecords(name)
	for i, rec := range records {
		p.Print(&b, 1, uint64(i)*1000, rec)
	}
	printed := viewsOf(&b)
	if at := bytes.IndexFunc(bytes.ReplaceAll(b.Text, []byte("\n"), nil), func(r rune) bool { return r < ' ' || r == 0x7f }); at >= 0 {
		t.Fatalf("a control character in %q", b.Text)
	}
	sameViews(t, reread(t, b.Text), printed)
	for i, v := range printed {
		if v.Comm != cutComm(comm) {
			t.Errorf("%q is read as the name %q", comm, v.Comm)
		}
		switch v.Kind {
		case tracefs.KindEvent:
			if _, got := text.SplitEvent([]byte(v.Body)); string(b.Plain(got)) != args[i] && !strings.HasPrefix(args[i], " ") {
				t.Errorf("%q: record %d has the arguments %q, want %q", name, i, b.Plain(got), args[i])
			}
		case tracefs.KindMappingEvent:
			usable := text.UsablePath([]byte(name))
			if (v.Bad == "") != usable || usable && (v.Path != name || v.BuildIDMissing != (i == 4)) {
				t.Errorf("%q is announced as %q, %s", name, v.Path, v.Bad)
			}
		}
	}
	if len(printed) != len(records) {
		t.Errorf("%d records of %d", len(printed), len(records))
	}
}

var strangeNames = []string{
	"cat", "", " x ", "a\nb", "\x1b[31m", `\012`, `\`, "x-1 [000] .....", "ü\xff\x80",
	"/tmp/ev\n            bash-1       [000] .....     9.000000: file_map: hash=0xa path=/usr/bin/ssh build_id={0x1,0x2,0x3,0x4,0x5}\n# ",
	"/x build_id={0x1,0x2,0x3,0x4,0x5}", "/x path=/y", "x\n =>  <0000000000001234> : path=/usr/bin/ssh", "# ustack: escaped=1", "\nCPU:0 [LOST 3 EVENTS]\n", "\r", "a\n\n",
	"/" + strings.Repeat("\xde", pathMax-2), "/x pid=9 old_pid=9\n", "/x\\", "/a\\\n12",
}

// TestStrange: untrusted strings are read back unchanged, and as nothing else.
func TestStrange(t *testing.T) {
	for _, comm := range strangeNames {
		for _, name := range strangeNames {
			checkStrange(t, comm, name)
		}
	}
}

// FuzzStrange is TestStrange with any bytes.
func FuzzStrange(f *testing.F) {
	for i, name := range strangeNames {
		f.Add(strangeNames[len(strangeNames)-1-i], name)
	}
	f.Fuzz(checkStrange)
}
