package tracedat

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseProcMap(t *testing.T) {
	for _, test := range []struct {
		text string
		want Process
		err  string
	}{
		{"7 1 /bin/seven\n1000 2000 /bin/seven\n", Process{7, "/bin/seven", []Range{{0x1000, 0x2000, "/bin/seven"}}}, ""},
		{"1f 2 /b n (deleted)\n1000 2000 /b\n2000 ffffffffff601000 [vsyscall]\n",
			Process{0x1f, "/b n (deleted)", []Range{{0x1000, 0x2000, "/b"}, {0x2000, 0xffffffffff601000, "[vsyscall]"}}}, ""},
		// A line feed in the path of the program.
		{"7 1 /a\n1000 2000 /x\n3000 4000 /b\n", Process{7, "/a\n1000 2000 /x", []Range{{0x3000, 0x4000, "/b"}}}, ""},
		{"7 0 /a\n", Process{7, "/a", nil}, ""},
		{"", Process{}, `line 1: "" is not PID, number of ranges and program`},
		{"7 1\n1000 2000 /a\n", Process{}, `line 1: "7 1" is not PID, number of ranges and program`},
		{"0 1 /a\n1000 2000 /a\n", Process{}, `line 1: "0 1 /a" is not PID, number of ranges and program`},
		{"fffffff 1 /a\n1000 2000 /a\n", Process{}, `line 1: "fffffff 1 /a" is not PID, number of ranges and program`},
		{"7 2 /a\n1000 2000 /a\n2000 1000 /b\n", Process{7, "/a", []Range{{0x1000, 0x2000, "/a"}}},
			`line 3: "2000 1000 /b" is not start, end and name of a mapping`},
		{"7 2 /a\n1000 2000 /a\n3000 4000\n", Process{7, "/a", []Range{{0x1000, 0x2000, "/a"}}},
			`line 3: "3000 4000" is not start, end and name of a mapping`},
		{"7 2 /a\n1000 2000 /a\n1fff 4000 /\x1b\n", Process{7, "/a", []Range{{0x1000, 0x2000, "/a"}}},
			`line 3: "1fff 4000 /\x1b" does not lie after the range before it`},
		{"7 3 /a\n1000 2000 /a\n", Process{7, "/a", []Range{{0x1000, 0x2000, "/a"}}}, `line 2: the end, with 2 ranges missing`},
		{"7 ffffffffffffffff /a\n1000 2000 /a\n", Process{7, "/a", []Range{{0x1000, 0x2000, "/a"}}}, `line 2: the end, with 18446744073709551614 ranges missing`},
		{"7 1 /a\n1000 2000 /a", Process{7, "/a", []Range{{0x1000, 0x2000, "/a"}}}, `line 2: the end, in the middle of the line`},
		{"7 1 /a\n1000 2000 /" + strings.Repeat("a", 5000) + "\n", Process{7, "/a", nil},
			`line 2: "1000 2000 /` + strings.Repeat("a", 89) + `" is not start, end and name of a mapping`},
		{"7 0 /aaa\n" + strings.Repeat("x\n", 5000), Process{7, "/aaa" + strings.Repeat("\nx", 2047), nil}, `line 2049: "x" exceeds the count in line 1`},
	} {
		got, err := parseProcMap(test.text)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%.80q is %+v, want %+v", test.text, got, test.want)
		}
		if msg := errText(err); msg != test.err {
			t.Errorf("%.80q: error %q, want %q", test.text, msg, test.err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestProcesses: of several options the good ones are kept, and the error names the
// others.
func TestProcesses(t *testing.T) {
	f := File{ProcMaps: []string{"7 1 /a\n1000 2000 /a\n", "8 1 /b\nx\n", "9 2 /c\n1000 2000 /c\n"}}
	got, err := f.Processes()
	var pids []int32
	for _, p := range got {
		pids = append(pids, p.PID)
	}
	if !slices.Equal(pids, []int32{7, 9}) {
		t.Errorf("processes %v", pids)
	}
	const want = "option PROCMAPS, number 2: line 2: \"x\" is not start, end and name of a mapping\n" +
		"option PROCMAPS, number 3: line 2: the end, with 1 ranges missing"
	if msg := errText(err); msg != want {
		t.Errorf("error %q, want %q", msg, want)
	}
}

// TestProcMapsBounded: a file that is nothing but mappings is not kept as a whole.
func TestProcMapsBounded(t *testing.T) {
	x := sample(7, "none", false)
	x.procMaps = "7 1 /a\n1000 2000 /" + strings.Repeat("a", maxProcMaps) + "\n"
	data := x.bytes()
	f := open(t, data)
	if got, err := f.Processes(); len(got) > 0 || errText(err) != "more than 16777216 bytes of options PROCMAPS" {
		t.Errorf("%d processes, error %v", len(got), err)
	}
	for i, data := range samples(t) {
		if got, err := open(t, data).Processes(); err != nil || len(got) != 1 || got[0].PID != 7 || got[0].Ranges[0].Name != "/bin/seven" {
			t.Errorf("sample %d: %+v, error %v", i, got, err)
		}
	}
}

// FuzzProcMap: what is accepted is in order, and says the same when it is
// written as trace-cmd does.
func FuzzProcMap(f *testing.F) {
	f.Add("7 1 /bin/seven\n1000 2000 /bin/seven\n")
	f.Add("7 1 /a\n1000 2000 /x\n3000 4000 /b\n")
	f.Add("50ea 2 /opt/two blank\n5654b83c2000 5654b83c3000 /opt/two\nffffffffff600000 ffffffffff601000 [vsyscall]\n")
	f.Add("7 ffffffffffffffff /a\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseProcMap(text)
		end := uint64(0)
		for _, r := range p.Ranges {
			if r.Start < end || r.End <= r.Start || r.Name == "" || strings.Contains(r.Name, "\n") {
				t.Fatalf("range %+v", r)
			}
			end = r.End
		}
		if err != nil {
			return
		}
		again, err := parseProcMap(written(&p))
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%+v written and read is %+v, error %v", p, again, err)
		}
	})
}

// written is the text that trace-cmd makes (add_pid_maps).
func written(p *Process) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%x %x %s\n", p.PID, len(p.Ranges), p.Exe)
	for _, r := range p.Ranges {
		fmt.Fprintf(&b, "%x %x %s\n", r.Start, r.End, r.Name)
	}
	return b.String()
}
