package render

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"ustack/tracefs/tracedat"
)

func savedSpecimens() []tracedat.Process {
	return []tracedat.Process{
		{PID: 7, Exe: "/opt/my prog", Ranges: []tracedat.Range{
			{Start: 0x1000, End: 0x2000, Name: "/opt/my"}, {Start: 0x3000, End: 0x5000, Name: "[heap]"},
			{Start: 0x7000, End: 0x8000, Name: "/x\t\x1b[2J\xff"}, {Start: 0x8000, End: 0x9000, Name: "[anon:cut"}}},
		{PID: 4194304, Exe: "/opt/my", Ranges: []tracedat.Range{{Start: 0x7f0000001000, End: 0x7f0000002000, Name: "/opt/my"}}},
	}
}

func savedText(t *testing.T, json, files bool) string {
	t.Helper()
	var out bytes.Buffer
	w := NewSavedMaps(NewSanitizer(&out), json, files)
	for _, p := range savedSpecimens() {
		if err := w.Process(&p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSavedMaps: what is not known is "?", and no key.
func TestSavedMaps(t *testing.T) {
	for _, test := range []struct {
		what        string
		json, files bool
		want        string
	}{
		{"table", false, false, `
    PID COMM            RANGE                     PERMS   OFFSET DEV      INODE BUILD-ID                                 PATH
      7 ?               00001000-00002000         ?            ? ?            ? ?                                        /opt/my ?
      7 ?               00003000-00005000         ?            ? ?            ? ?                                        [heap]
      7 ?               00007000-00008000         ?            ? ?            ? ?                                        /x\011\033[2J\377
      7 ?               00008000-00009000         ?            ? ?            ? ?                                        [anon:cut
4194304 ?               7f0000001000-7f0000002000 ?            ? ?            ? ?                                        /opt/my
`},
		{"files", false, true, `
PROCESSES DEV      INODE BUILD-ID                                 PATH
        1 ?            ? ?                                        /opt/my
        1 ?            ? ?                                        /opt/my ?
        1 ?            ? ?                                        /x\011\033[2J\377
`},
		{"lines", true, false, `
{"pid":7,"exe":"/opt/my prog","start":"0x1000","end":"0x2000","path_prefix":"/opt/my"}
{"pid":7,"exe":"/opt/my prog","start":"0x3000","end":"0x5000","path":"[heap]","kind":"heap"}
{"pid":7,"exe":"/opt/my prog","start":"0x7000","end":"0x8000","path":"/x\t\u001b[2J` + "\ufffd" + `","path_hex":"2f78091b5b324aff"}
{"pid":7,"exe":"/opt/my prog","start":"0x8000","end":"0x9000","path":"[anon:cut"}
{"pid":4194304,"exe":"/opt/my","start":"0x7f0000001000","end":"0x7f0000002000","path":"/opt/my"}
`},
		{"lines of files", true, true, `
{"processes":1,"mappings":1,"path":"/opt/my"}
{"processes":1,"mappings":1,"path_prefix":"/opt/my"}
{"processes":1,"mappings":1,"path":"/x\t\u001b[2J` + "\ufffd" + `","path_hex":"2f78091b5b324aff"}
`},
	} {
		got := savedText(t, test.json, test.files)
		if want := strings.TrimPrefix(test.want, "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", test.what, got, want)
		}
		for line := range strings.Lines(got) {
			if test.json && !json.Valid([]byte(line)) {
				t.Errorf("%s: no JSON: %s", test.what, line)
			}
		}
	}
}

func TestSavedAddresses(t *testing.T) {
	for _, test := range []struct {
		json bool
		want string
	}{
		{false, "0x1010 ? ? /opt/my ?[+0x10]\n0x6000 ? ? no-address-space\n"},
		{true, `{"pid":7,"exe":"/opt/my prog","address":"0x1010","start":"0x1000","end":"0x2000","path_prefix":"/opt/my","vma_offset":"0x10"}` + "\n" +
			`{"pid":7,"exe":"/opt/my prog","address":"0x6000","reason":"no-address-space"}` + "\n"},
	} {
		var out bytes.Buffer
		w := NewSavedAddresses(NewSanitizer(&out), test.json)
		p := &savedSpecimens()[0]
		for _, addr := range []uint64{0x1010, 0x6000} {
			if err := w.Address(p, addr, p.Find(addr)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil || out.String() != test.want {
			t.Errorf("%v\n%s\nwant\n%s", err, out.String(), test.want)
		}
	}
}
