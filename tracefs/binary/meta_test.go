package binary

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func TestParseComms(t *testing.T) {
	const text = "14 rcu_sched\n635 tab\tname\n700 a b  \n701 line\nfeed\n702 \n703 exactly-fifteen\nx 9\nnot a pid\n"
	want := map[int32]string{14: "rcu_sched", 635: "tab\tname", 700: "a b  ", 701: "line\nfeed", 702: "", 703: "exactly-fifteen"}
	if got := ParseComms(text); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestParseTGIDs(t *testing.T) {
	if got := parseTGIDs("7 3\n8 8\n\n9\n-1 5\nx y\n"); !reflect.DeepEqual(got, map[int32]int32{7: 3, 8: 8}) {
		t.Error(got)
	}
}

func TestParseStrings(t *testing.T) {
	const text = `0xffffffff81badae1 : "End context switch"` + "\n" +
		`0xffffffff81badaf4 : "a \"quoted\" \\ %d\n\t"` + "\n" + "junk\n0xzz : \"x\"\n0x1 : \"\n"
	want := map[uint64]string{0xffffffff81badae1: "End context switch", 0xffffffff81badaf4: "a \"quoted\" \\ %d\n\t"}
	if got := ParseStrings([]byte(text)); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestParseClock(t *testing.T) {
	for text, want := range map[string]string{"[local] global mono\n": "local", "local global [x86-tsc]": "x86-tsc", "mono": "", "": ""} {
		if got := ParseClock(text); got != want {
			t.Errorf("%q has clock %q, want %q", text, got, want)
		}
	}
}

func TestRelease(t *testing.T) {
	for release, want := range map[string]bool{"6.18.44-1": true, "6.17.9": false, "7.0": true, "5.10": false, "": true, "6.18-rc1": true, "x": true, "10.1": true} {
		k := Kernel{Release: release}
		if got := k.atLeast(6, 18); got != want {
			t.Errorf("%q is at least 6.18: %v", release, got)
		}
	}
	if got := ReleaseOf("Linux (none) 7.3.4-unwindlab x86_64"); got != "7.3.4-unwindlab" {
		t.Error(got)
	}
}

func TestSymbols(t *testing.T) {
	s := NewSymbols(func() []byte {
		return []byte("0000000000000000 A zero\nffffffff81000010 T second\nffffffff81000000 T _text\nffffffff81000000 T alias\n" +
			"ffffffff82000000 D data\nffffffffa0000000 t probe\t[mod]\nffffffffa0000080 t last\t[mod]\njunk\n")
	})
	for _, x := range [...]struct {
		addr   uint64
		offset bool
		want   string
		text   bool
	}{
		{0xffffffff81000000, false, "_text", true},
		{0xffffffff8100000f, true, "_text+0xf/0x10", true},
		{0xffffffff81000010, true, "second+0x0/0xfffff0", true},
		{0xffffffff82000008, false, "data", false},
		{0xffffffffa0000010, true, "probe+0x10/0x80 [mod]", true},
		{0xffffffffa0000090, true, "", false},
		{0x1000, true, "", false},
	} {
		got, ok := s.Append(nil, x.addr, x.offset)
		if string(got) != x.want || ok != (x.want != "") || s.isText(x.addr) != x.text {
			t.Errorf("%#x is %q, %v, text %v", x.addr, got, ok, s.isText(x.addr))
		}
	}
	if _, ok := (*Symbols)(nil).Append(nil, 1, false); ok {
		t.Error("no symbols have a name")
	}
}

func TestReadMeta(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const format = "name: x\nID: 5\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\nprint fmt: \"\"\n"
	top := fstest.MapFS{"events/s/x/format": file(format), "saved_cmdlines": file("7 seven\n"), "trace_clock": file("[mono]")}
	in := fstest.MapFS{"trace_clock": file("[boot] local"), "trace_options": file("noirq-info\nrecord-tgid\nverbose\n"), "buffer_subbuf_size_kb": file("8\n")}
	k, err := ReadMeta(top, in)
	if err != nil || k.Clock != "boot" || k.Subbuf != 8192 || k.Comms[7] != "seven" || !k.Options.NoIRQInfo || !k.Options.TGID || !k.Options.Verbose {
		t.Errorf("%+v, %v", k, err)
	}
	for name, text := range map[string]string{"events/header_page": "junk", "events/header_event": "type_len : 6 bits", "events/s/x/format": "junk"} {
		bad := fstest.MapFS{"events/s/x/format": file(format)}
		bad[name] = file(text)
		if _, err := ReadMeta(bad, in); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a wrong %s: %v", name, err)
		}
	}
}
