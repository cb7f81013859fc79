package format

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

const common = `format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

`

func TestParse(t *testing.T) {
	e, err := Parse([]byte("name: file_map\nID: 438\n" + common +
		"\tfield:u32 hash;\toffset:8;\tsize:4;\tsigned:0;\n" +
		"\tfield:__data_loc char[] path;\toffset:12;\tsize:4;\tsigned:0;\n" +
		"\tfield:u32 build_id[5];\toffset:16;\tsize:20;\tsigned:0;\n" +
		"\tfield:const char * str;\toffset:40;\tsize:8;\tsigned:0;\n" +
		"\tfield:__rel_loc u64[] list;\toffset:48;\tsize:4;\tsigned:0;\n" +
		"\tfield:char buf[];\toffset:52;\tsize:0;\n" +
		"\nprint fmt: \"hash=0x%x\", REC->hash\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Field{
		{Type: "u32", Name: "hash", Offset: 8, Size: 4},
		{Type: "char", Name: "path", Offset: 12, Size: 4, Array: true, Loc: DataLoc},
		{Type: "u32", Name: "build_id", Offset: 16, Size: 20, Len: 5, Array: true},
		{Type: "const char *", Name: "str", Offset: 40, Size: 8},
		{Type: "u64", Name: "list", Offset: 48, Size: 4, Array: true, Loc: RelLoc},
		{Type: "char", Name: "buf", Offset: 52, Array: true},
	}
	if !reflect.DeepEqual(e.Fields, want) {
		t.Errorf("fields are\n%+v, want\n%+v", e.Fields, want)
	}
	if e.Name != "file_map" || e.ID != 438 || len(e.Common) != 4 || e.Size != 52 || e.PrintFmt != `"hash=0x%x", REC->hash` {
		t.Errorf("%s %d, %d common fields, size %d, print fmt %s", e.Name, e.ID, len(e.Common), e.Size, e.PrintFmt)
	}
	if n := e.Field("build_id").ElemSize(); n != 4 {
		t.Errorf("an element of build_id has %d bytes", n)
	}
	if pid := e.Field("common_pid"); pid == nil || !pid.Signed || e.Field("none") != nil {
		t.Errorf("common_pid is %+v", pid)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "name: x\n", "ID: 5\n",
		"name: x\nID: 70000\n",
		"name: x\nID: 5\nformat:\n\tfield:int a;\toffset:99999999;\tsize:4;\tsigned:1;\n",
		"name: x\nID: 5\nformat:\n\tfield:int a;\toffset:-1;\tsize:4;\tsigned:1;\n",
		"name: x\nID: 5\nformat:\n\tfield:int a;\tsize:4;\tsigned:1;\n",
		"name: x\nID: 5\nformat:\n\tfield:int;\toffset:8;\tsize:4;\tsigned:1;\n",
		"name: x\nID: 5\nformat:\n\tfield:__data_loc char[] a;\toffset:8;\tsize:8;\tsigned:1;\n",
		"name: x\nID: 5\nformat:\n\tfield:int a[9];\toffset:8;\tsize:8;\tsigned:1;\n",
		"name: x\nID: 5\nformat:\n" + strings.Repeat("\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n", maxFields+1),
	} {
		if e, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.80q is taken as %+v", text, e)
		}
	}
}

func TestParsePage(t *testing.T) {
	text, err := os.ReadFile("testdata/header_page")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParsePage(text)
	if err != nil || *p != *DefaultPage() {
		t.Errorf("%+v, %v", p, err)
	}
	small := "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n" +
		"\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n" +
		"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n" +
		"\tfield: char data;\toffset:12;\tsize:4084;\tsigned:1;\n"
	if p, err = ParsePage([]byte(small)); err != nil || *p != (Page{0, 8, 4, 12, 4096}) {
		t.Errorf("32-bit: %+v, %v", p, err)
	}
	for _, bad := range []string{
		"", "junk", strings.ReplaceAll(small, "size:4;", "size:3;"), strings.ReplaceAll(small, "offset:12", "offset:4"),
		strings.ReplaceAll(small, "offset:12", "offset:4000"), strings.ReplaceAll(small, "size:4084", "size:0"),
	} {
		if p, err := ParsePage([]byte(bad)); err == nil {
			t.Errorf("%q is taken as %+v", bad, p)
		}
	}
}

func TestCheckEntry(t *testing.T) {
	text, err := os.ReadFile("testdata/header_event")
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckEntry(text); err != nil {
		t.Error(err)
	}
	if CheckEntry([]byte(strings.Replace(string(text), "27 bits", "26 bits", 1))) == nil {
		t.Error("another header is taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("name: x\nID: 5\n" + common + "\tfield:__data_loc char[] path;\toffset:12;\tsize:4;\tsigned:0;\n\nprint fmt: \"%s\"")
	f.Add("name: x\nID: 5\n" + common + "\tfield:u32 build_id[5];\toffset:16;\tsize:20;\tsigned:0;\n")
	f.Fuzz(func(t *testing.T, text string) {
		ParsePage([]byte(text))
		e, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, list := range [][]Field{e.Common, e.Fields} {
			for _, x := range list {
				if x.Offset < 0 || x.Offset+x.Size > e.Size || x.Size < 0 || x.ElemSize() > x.Size || x.Name == "" {
					t.Fatalf("field %+v", x)
				}
			}
		}
	})
}
