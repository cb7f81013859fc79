package text

import (
	"strings"
	"testing"

	"ustack/tracefs"
)

// mappingEventTests are mapping events and what they say. No path and no reason
// means that the reason does not matter, only that there is one.
var mappingEventTests = []struct {
	name, body string
	want       fileView
}{
	{
		"8 Sep", "file_map: hash=0xad2c6f1b path=/home/c/futex_requeue build_id={0xc02417ea,0x1f4e0143,0x338cf27d,0x506a7a5d,0x7884d090}\n",
		fileView{hash(0xad2c6f1b), "/home/c/futex_requeue", "0xc02417ea,0x1f4e0143,0x338cf27d,0x506a7a5d,0x7884d090", true, ""},
	},
	{
		"29 Aug", "file_cache: hash=0x666220af path=/usr/lib/libc.so.6 build_id={0x10bddb6d,0xf5234181,0xc2f72e26,0x1aa4f797,0x6aa19eda}\n",
		fileView{hash(0x666220af), "/usr/lib/libc.so.6", "0x10bddb6d,0xf5234181,0xc2f72e26,0x1aa4f797,0x6aa19eda", true, ""},
	},
	{
		"words are not padded", "inode_cache: hash=0xa55a259e path=/usr/lib/libz.so.1.3.1 build_id={0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253}\n",
		fileView{hash(0xa55a259e), "/usr/lib/libz.so.1.3.1", "0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253", true, ""},
	},
	{
		"short hash", "file_map: hash=0xf4e46cf path=/lib/ld.so build_id={0x0,0x0,0x0,0x0,0x0}\n",
		fileView{hash(0xf4e46cf), "/lib/ld.so", "0x0,0x0,0x0,0x0,0x0", true, ""},
	},
	{
		"64 bits without 0x", "inode_cache: hash=ffff8881007ed428 path=/usr/lib/libc.so.6\n",
		fileView{ID: hash(0xffff8881007ed428), Path: "/usr/lib/libc.so.6"},
	},
	{
		"digits only, without 0x", "inode_cache: hash=1234 path=/a\n",
		fileView{ID: hash(0x1234), Path: "/a"},
	},
	{
		"inode and device", "inode_cache: inode=1340007 dev=[254:3] path=/usr/lib/x86_64-linux-gnu/libc.so.6\n",
		fileView{ID: tracefs.InodeIdentifier(1340007, 254, 3), Path: "/usr/lib/x86_64-linux-gnu/libc.so.6"},
	},
	{
		"pointer for an inode", "inode_cache: inode=ffff8881007ed428 dev=[254:3] path=/usr/lib/libc.so.6\n",
		fileView{ID: tracefs.InodeIdentifier(0xffff8881007ed428, 254, 3), Path: "/usr/lib/libc.so.6"},
	},
	{
		"inode of 16 digits", "inode_cache: inode=1234567890123456 dev=[0:50] path=/a\n",
		fileView{ID: tracefs.InodeIdentifier(1234567890123456, 0, 50), Path: "/a"},
	},
	{ // network and overlay file systems number with all 64 bits
		"inode of 17 digits", "inode_cache: inode=12345678901234567 dev=[0:50] path=/a\n",
		fileView{ID: tracefs.InodeIdentifier(12345678901234567, 0, 50), Path: "/a"},
	},
	{
		"inode of 20 digits", "inode_cache: inode=18446744073709551609 dev=[0:50] path=/a\n",
		fileView{ID: tracefs.InodeIdentifier(18446744073709551609, 0, 50), Path: "/a"},
	},
	{
		"inode without device", "inode_cache: inode=77 path=/a\n",
		fileView{ID: hash(77), Path: "/a"},
	},
	{
		"build ID in the path", "file_map: hash=0x4e9d7494 path=/opt/evil path=/bin/true build_id={0x1,0x2,0x3,0x4,0x5}/x build_id={0xe1b35cce,0x2ed3a710,0xacd471fe,0xdeaa89b1,0xdc8a8fb1}\n",
		fileView{hash(0x4e9d7494), "/opt/evil path=/bin/true build_id={0x1,0x2,0x3,0x4,0x5}/x", "0xe1b35cce,0x2ed3a710,0xacd471fe,0xdeaa89b1,0xdc8a8fb1", true, ""},
	},
	{
		"build ID ends the path", "file_map: hash=0x1 path=/opt/evil build_id={0x5,0x4,0x3,0x2,0x1} build_id={0x1,0x2,0x3,0x4,0x5}\n",
		fileView{hash(1), "/opt/evil build_id={0x5,0x4,0x3,0x2,0x1}", "0x1,0x2,0x3,0x4,0x5", true, ""},
	},
	{
		"no build ID but braces", "file_map: hash=0x1 path=/opt/{a,b}\n",
		fileView{ID: hash(1), Path: "/opt/{a,b}"},
	},
	{
		"braces with other text", "file_map: hash=0x1 path=/opt/x build_id={none}\n",
		fileView{ID: hash(1), Path: "/opt/x build_id={none}"},
	},
	{ // no kernel prints less than a whole ID
		"four words", "file_map: hash=0x1 path=/a build_id={0x1,0x2,0x3,0x4}\n",
		fileView{ID: hash(1), Path: "/a build_id={0x1,0x2,0x3,0x4}"},
	},
	{
		"line feed in the path", "file_map: hash=0x5f7a8bd8 path=/opt/new\nline/x build_id={0x1,0x2,0x3,0x4,0x5}\n",
		fileView{hash(0x5f7a8bd8), "/opt/new\nline/x", "0x1,0x2,0x3,0x4,0x5", true, ""},
	},
	{
		"line feed ends the path", "inode_cache: inode=7 dev=[254:0] path=/opt/x\n\n",
		fileView{ID: tracefs.InodeIdentifier(7, 254, 0), Path: "/opt/x\n"},
	},
	{
		"a frame in the path", "file_map: hash=0x1 path=/opt/x\n =>  <0000000000001234> : 0x1\n",
		fileView{ID: hash(1), Path: "/opt/x\n =>  <0000000000001234> : 0x1"},
	},
	{
		"blanks, backslash, tab", "file_map: hash=0x1 path=/opt/back\\slash\ttab/ b  build_id={0x1,0x2,0x3,0x4,0x5}\n",
		fileView{hash(1), "/opt/back\\slash\ttab/ b ", "0x1,0x2,0x3,0x4,0x5", true, ""},
	},
	{
		"deleted", "file_map: hash=0x1 path=/opt/real (deleted)/tool (deleted) build_id={0x1,0x2,0x3,0x4,0x5}\n",
		fileView{hash(1), "/opt/real (deleted)/tool (deleted)", "0x1,0x2,0x3,0x4,0x5", true, ""},
	},
	{
		"memfd", "file_map: hash=0x1 path=/memfd:jit code cache (deleted) build_id={0x0,0x0,0x0,0x0,0x0}\n",
		fileView{hash(1), "/memfd:jit code cache (deleted)", "0x0,0x0,0x0,0x0,0x0", true, ""},
	},
	{
		"named shared memory", "file_map: hash=0x1 path=v8-jit build_id={0x0,0x0,0x0,0x0,0x0}\n",
		fileView{hash(1), "v8-jit", "0x0,0x0,0x0,0x0,0x0", true, ""},
	},
	{
		"twenty bytes", "file_map: hash=0x1 path=/a build_id={0x6d,0xdb,0xbd,0x10,0x81,0x41,0x23,0xf5,0x26,0x2e,0xf7,0xc2,0x97,0xf7,0xa4,0x1a,0xda,0x9e,0xa1,0x6a}\n",
		fileView{hash(1), "/a", "0x6d,0xdb,0xbd,0x10,0x81,0x41,0x23,0xf5,0x26,0x2e,0xf7,0xc2,0x97,0xf7,0xa4,0x1a,0xda,0x9e,0xa1,0x6a", true, ""},
	},
	{
		"trace-cmd report", "file_map:             hash=0xa257610f path=/sbin/mapsnap build_id=2819695356 2716465008 3187156953 2708830372 902804877\n",
		fileView{hash(0xa257610f), "/sbin/mapsnap", "2819695356 2716465008 3187156953 2708830372 902804877", true, ""},
	},
	{
		"decimal words are trace-cmd's", "file_map: hash=0x1 path=/a build_id=1 2 3 4 5\n",
		fileView{ID: hash(1), Path: "/a build_id=1 2 3 4 5"},
	},
	{
		"longest path", "file_map: hash=0x1 path=/" + strings.Repeat("x", 4095) + "\n",
		fileView{ID: hash(1), Path: "/" + strings.Repeat("x", 4095)},
	},
	{"too long a path", "file_map: hash=0x1 path=/" + strings.Repeat("x", 4096) + "\n", fileView{Bad: "no usable path"}},
	{"d_path failed", "file_map: hash=0x1 path=(null) build_id={0x1,0x2,0x3,0x4,0x5}\n", fileView{Bad: "no usable path"}},
	{"an error pointer", "inode_cache: inode=1 dev=[1:2] path=(efault)\n", fileView{Bad: "no usable path"}},
	{"empty path", "file_map: hash=0x1 path= build_id={0x1,0x2,0x3,0x4,0x5}\n", fileView{Bad: "no usable path"}},
	{"nothing after path=", "file_map: hash=0x1 path=\n", fileView{Bad: "no usable path"}},
	{"binary path", "file_map: hash=0x1 path=\x00\x01\xff\n", fileView{Bad: "no usable path"}},
	{"no path", "file_map: hash=0x1\n", fileView{Bad: "no path"}},
	{"no hash", "file_map: hash= path=/a\n", fileView{Bad: "no identifier"}},
	{"no hash but 0x", "file_map: hash=0x path=/a\n", fileView{Bad: "no identifier"}},
	{"hash of 68 bits", "file_map: hash=0x12345678123456781 path=/a\n", fileView{Bad: "no identifier"}},
	{"no number", "file_map: hash=zero path=/a\n", fileView{Bad: "no identifier"}},
	{"another key", "file_map: name=0x1 path=/a\n", fileView{Bad: "no identifier"}},
	{"broken device", "inode_cache: inode=1 dev=[254] path=/a\n", fileView{Bad: "no identifier"}},
	{"open device", "inode_cache: inode=1 dev=[254:3 path=/a\n", fileView{Bad: "no identifier"}},
	{"empty", "file_map:\n", fileView{Bad: "no identifier"}},
	{"end of input", "file_map: hash=0x1 path=/usr/lib/li", fileView{Bad: "cut off"}},
}

func hash(v uint64) tracefs.Identifier { return tracefs.HashIdentifier(v) }

func TestMappingEvents(t *testing.T) {
	for _, c := range mappingEventTests {
		t.Run(c.name, func(t *testing.T) {
			v := scanOne(t, columnsLine("bash", 1013, "[004] ...1.    37.722923: "+c.body))
			if v.Kind != tracefs.KindMappingEvent || v.File != c.want {
				t.Errorf("kind %d\n got %+v\nwant %+v", v.Kind, v.File, c.want)
			}
		})
	}
}

// TestNotMappingEvents has events that only look like mapping events: their
// text must never give a frame a name.
func TestNotMappingEvents(t *testing.T) {
	for _, body := range []string{
		"tracing_mark_write: file_map: hash=0x1 path=/bin/false build_id={0x1}\n",
		"tracing_mark_write: two\nfile_map: hash=0x1 path=/bin/false build_id={0x1}\n",
		"file_mapped: hash=0x1 path=/bin/false\n",
		"file_map hash=0x1 path=/bin/false\n",
		"my_file_map: hash=0x1 path=/bin/false\n",
		" file_map: hash=0x1 path=/bin/false\n",
	} {
		if v := scanOne(t, columnsLine("bash", 1013, "[004] ...1.    37.722923: "+body)); v.Kind != tracefs.KindEvent {
			t.Errorf("%q is of kind %d", body, v.Kind)
		}
	}
}

// TestMappingEventEnds: a mapping event is as long as its record, wherever
// its text comes from.
func TestMappingEventEnds(t *testing.T) {
	first := columnsLine("bash", 1013, "[004] ...1.    37.722923: file_map: hash=0x1 path=/a\nb\n")
	for _, next := range []string{
		columnsLine("bash", 1013, "[004] ...1.    37.722924: cookie=1\n"),
		"CPU:3 [LOST 7 EVENTS]\n",
		"##### CPU 1 buffer started ####\n",
		"[LINE TOO BIG]\n",
	} {
		list := scan(t, first+next)
		if len(list) != 2 || list[0].File.Path != "/a\nb" || list[1].Text != next {
			t.Errorf("before %q: %+v", next, list)
		}
	}
}

func TestSplitFile(t *testing.T) {
	const id = "0x1,0x2,0x3,0x4,0x5"
	for _, c := range []struct {
		text, path, id string
		has            bool
	}{
		{"/a build_id={" + id + "}", "/a", id, true},
		{" build_id={" + id + "}", "", id, true},
		{"/a build_id={" + id + "} build_id={" + id + "}", "/a build_id={" + id + "}", id, true},
		{"/a", "/a", "", false},
		{"", "", "", false},
		{"}", "}", "", false},
		{"/a build_id={" + id, "/a build_id={" + id, "", false},
		{"/a build_id={" + id + ",0x6}", "/a build_id={" + id + ",0x6}", "", false},
		{"/a build_id={0x1,0x2,0x3,0x4,0xg}", "/a build_id={0x1,0x2,0x3,0x4,0xg}", "", false},
		{"/a build_id={0x1,0x2,0x3,0x4,5}", "/a build_id={0x1,0x2,0x3,0x4,5}", "", false},
		{"/a build_id={0x1,0x2,0x3,0x4,0x100000000}", "/a build_id={0x1,0x2,0x3,0x4,0x100000000}", "", false},
		{"/a build_id={}", "/a build_id={}", "", false},
		{"/a [build_id=c2e0a63b]", "/a [build_id=c2e0a63b]", "", false},
	} {
		path, words := SplitFile([]byte(c.text))
		if string(path) != c.path || string(words) != c.id || (words != nil) != c.has {
			t.Errorf("SplitFile(%q) = %q, %q", c.text, path, words)
		}
	}
}

// TestMappingEventIsWhole: what follows the build ID is no path any more.
func TestMappingEventIsWhole(t *testing.T) {
	first := columnsLine("bash", 1013, "[004] ...1.    37.722923: file_map: hash=0x1 path=/a\nb build_id={0x1,0x2,0x3,0x4,0x5}\n")
	list := scan(t, first+"another line\n")
	if len(list) != 2 || list[0].File.Path != "/a\nb" || !list[0].File.HasBuildID || list[1].Kind != tracefs.KindNote {
		t.Errorf("%+v", list)
	}
}
