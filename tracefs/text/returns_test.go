package text

import (
	"testing"

	"ustack/tracefs"
)

// TestSomeReturns: a mapping event that another program has appended to, a carriage
// return for one, names no file. What was appended is not part of the path, nor is the
// build ID before it.
func TestSomeReturns(t *testing.T) {
	const id = " build_id={0x1,0x2,0x3,0x4,0x5}"
	for _, test := range []struct{ file, path string }{
		{"/a" + id, "/a"},
		{"/a\r" + id, "/a\r"}, // in the path
		{"/a ", "/a "},
		{"/a build_id={none} ", "/a build_id={none} "},
		{"/a" + id + "\r", ""},
		{"/a" + id + " ", ""},
		{"/a" + id + " \t\r", ""},
		{"/a" + id + "\t", ""},
		{"/a\r", ""},
		{"/a build_id=1 2 3 4 5\r", ""},
	} {
		for _, escaped := range []bool{false, true} {
			a := parseMappingEvent([]byte("file_map: hash=0x1 path="+test.file+"\n"), mappingEventForm{whole: true, escaped: escaped})
			if string(a.Path) != test.path || (a.Bad == "") != (test.path != "") {
				t.Errorf("%q, escaped %v: path %q, %s", test.file, escaped, a.Path, a.Bad)
			}
		}
	}
	for _, report := range []string{"/a build_id=1 2 3 4 5\r", "/a build_id=1 2 3 4 5 \r"} {
		if a := parseMappingEvent([]byte("file_map:      hash=0x1 path="+report+"\n"), mappingEventForm{whole: true}); a.Bad == "" {
			t.Errorf("%q of a report: path %q", report, a.Path)
		}
	}
	// Nor does a pause of the input, or a following record, change that.
	line := columnsLine("cat", 7, "[000] .....     1.000001: file_map: hash=0x1 path=/a"+id+"\r\n")
	got := scanPieces(t, plainScanner(), []byte(line+columnsLine("cat", 7, "[000] .....     1.000002: cookie=1\n")))
	for _, r := range got.records {
		if r.Kind == tracefs.KindMappingEvent && r.File.Bad == "" {
			t.Errorf("scanned: %+v", r.File)
		}
	}
}
