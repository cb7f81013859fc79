package health

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"ustack/filemap/elfid"
	"ustack/filemap/inspect"
	"ustack/filemap/unwind/health"
)

// good is a file through which all stacks go.
func good() *health.Report {
	return &health.Report{
		Machine: elf.EM_X86_64, Wide: true, Code: 1000, FramePointers: health.Kept, Keeping: 9, Looked: 10, Covered: 1, Reach: 1,
		EHFrame: health.Table{Present: true, Functions: 10, Covered: 1, Indexed: true}, Names: health.All,
	}
}

// stripped is one through which none goes.
func stripped() *health.Report {
	return &health.Report{Machine: elf.EM_AARCH64, Wide: true, Code: 1000, FramePointers: health.Dropped, Looked: 10, Missing: 1000, DebugLink: "x\ny"}
}

func write(t *testing.T, w Writer, list []*health.Target, processes ...*health.Process) {
	t.Helper()
	for _, s := range list {
		if err := w.File(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range processes {
		if err := w.Process(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestText: the table, then the reasons with their files.
func TestText(t *testing.T) {
	some := stripped()
	some.EHFrame, some.Covered, some.Reach = health.Table{Present: true}, 0.5, 0.999*0.5
	some.SFrame = health.Table{Present: true, Version: 2}
	list := []*health.Target{
		{Path: "/good", Report: good()}, {Path: "/bad\x1b\n", Report: stripped()}, {Path: "/half", Report: some},
		{Path: "/data", PID: 7, Err: errors.New("no ELF file"), NotELF: true},
	}
	const want = `UNWIND  FP           TABLES               NAMES             BUILD-ID  FILE
whole   kept 90 %    eh_frame 100 %       symtab            none      /good
stops   dropped 0 %  none                 none              none      /bad\033\012
49 %    dropped 0 %  eh_frame+sframe v2 50 %  none              none      /half
-       -            not ELF              -                 -         /data

1 of 4 files: stacks stop here: there are no unwind tables (.eh_frame,
    .debug_frame, .sframe), and the code does not show where frames are
    do: build with -fasynchronous-unwind-tables, or with
        -fno-omit-frame-pointer
    in: bad\033\012
`
	var b bytes.Buffer
	write(t, NewText(&b, false), list, &health.Process{PID: 7, Name: "j\nava", Bare: 3, BareBytes: 4096}, &health.Process{PID: 8})
	got := b.String()
	if !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, part := range []string{"process 7 (j\\012ava): whole stacks (--unwind=auto) stop in code that has no tables, perhaps of a JIT compiler", "without a file: 3, 4K)", "\n4 files: stacks go whole through 1 of them"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.TrimSpace(part)) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	if strings.Contains(got, "process 8") || strings.ContainsAny(got, "\x1b\u00a0") {
		t.Error(got)
	}
}

// TestDetails: -v has all, and no control characters.
func TestDetails(t *testing.T) {
	r := stripped()
	r.Gap, r.Static, r.Go = health.Gap{Start: 1, End: 1001, Section: ".te\x1bxt"}, true, true
	r.Damaged = []string{"reading .eh_\x07frame: bad"}
	r.Separate = health.Separate{Found: true, Names: health.All, DebugInfo: true, DebugFrame: health.Table{Present: true, Functions: 3, Covered: 0.9999}}
	var b bytes.Buffer
	write(t, NewText(&b, true), []*health.Target{{Path: "a", Report: r, Debug: "/d\x1b"}})
	for _, part := range []string{"AARCH64, static, Go: 1000 bytes", "0 of 10 functions", "0x1 to 0x3e9 in .te\\033xt", "damaged: reading .eh_\\007frame", "x\\012y",
		"/d\\033: names: symtab, lines: yes, .debug_frame: 3 functions, 99.9 %", "debug file+lines"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in\n%s", part, b.String())
		}
	}
}

// TestNoSections: what is not found is not said to be missing.
func TestNoSections(t *testing.T) {
	r := stripped()
	r.NoSections, r.DebugLink = true, ""
	var b bytes.Buffer
	write(t, NewText(&b, true), []*health.Target{{Path: "a", Report: r}})
	lines := strings.Split(b.String(), "\n\n")
	if !strings.HasPrefix(b.String(), "UNWIND") || strings.Count(lines[0], "none") != 2 || !strings.Contains(lines[0], "no section headers: names, lines") { // it has no build ID
		t.Error(lines[0])
	}
}

// TestBuildID: advice names the build ID of the file, a place for it where several files
// have others, and none where there is none.
func TestBuildID(t *testing.T) {
	with := func(id byte) *health.Report {
		r := stripped()
		r.BuildID, _ = elfid.New([]byte{0xde, 0xb0, id})
		return r
	}
	const (
		find    = "do: install the debug file: debuginfod-find debuginfo "
		without = "do: without a build ID: use the unstripped file, or install the package with -dbgsym or -debuginfo"
	)
	for _, c := range []struct {
		reports  []*health.Report
		want, no []string
	}{
		{[]*health.Report{with(1)}, []string{find + "deb001,"}, []string{"BUILD-ID,", without}},
		{[]*health.Report{with(1), with(1)}, []string{find + "deb001,"}, []string{"BUILD-ID,", without}},
		{[]*health.Report{with(1), with(2)}, []string{find + "BUILD-ID,"}, []string{"deb001,", without}},
		{[]*health.Report{stripped()}, []string{without}, []string{"debuginfod-find"}},
		{[]*health.Report{stripped(), with(1)}, []string{find + "deb001,", without}, []string{"BUILD-ID,"}},
		{[]*health.Report{with(1), stripped(), with(2)}, []string{find + "BUILD-ID,", without}, []string{"deb001,"}},
	} {
		var list []*health.Target
		for _, r := range c.reports {
			list = append(list, &health.Target{Path: "/a", Report: r})
		}
		var text, object bytes.Buffer
		write(t, NewText(&text, false), list)
		write(t, NewJSON(&object), list)
		got := strings.Join(strings.Fields(text.String()), " ")
		for _, want := range c.want {
			if strings.Count(got, want) != 1 {
				t.Errorf("no %q, or twice, in\n%s", want, text.String())
			}
		}
		for _, no := range c.no {
			if strings.Contains(got, no) {
				t.Errorf("%q in\n%s", no, text.String())
			}
		}
		for _, r := range c.reports {
			want := "debuginfod-find debuginfo " + r.BuildID.Hex() + ","
			if r.BuildID.IsZero() {
				want = without[len("do: "):]
			}
			if !strings.Contains(object.String(), want) || strings.Contains(object.String(), "BUILD-ID") {
				t.Errorf("no %q in, or BUILD-ID\n%s", want, object.String())
			}
		}
	}
}

// TestLists: long lists are cut, those of nearly all files say which are not meant, and
// base names that are not unique are paths.
func TestLists(t *testing.T) {
	var many, most []*health.Target
	for i := range 30 {
		r := good()
		if i%2 == 0 {
			r = stripped()
		}
		many = append(many, &health.Target{Path: fmt.Sprintf("/lib/lib%d.so", i), Report: r})
	}
	for i := range 10 {
		r := stripped()
		if i == 4 {
			r = good()
		}
		most = append(most, &health.Target{Path: fmt.Sprintf("/%d/same.so", i), Report: r})
	}
	for _, c := range []struct {
		list    []*health.Target
		verbose bool
		want    string
	}{
		{many, false, "lib14.so, and 7 more (-v lists all)"},
		{many, true, "lib28.so"},
		{most, false, "in: all but /4/same.so"},
	} {
		var b bytes.Buffer
		write(t, NewText(&b, c.verbose), c.list)
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), c.want) {
			t.Errorf("no %q in\n%s", c.want, b.String())
		}
	}
}

// TestJSON: it is one object, whatever there is.
func TestJSON(t *testing.T) {
	for _, list := range [][]*health.Target{
		nil,
		{{Path: "a\xff\x1b", Report: stripped()}, {Path: "b", Err: errors.New("no"), PID: 3}, {Path: "c", Report: good(), Debug: "/d"}},
	} {
		var b bytes.Buffer
		write(t, NewJSON(&b), list, &health.Process{PID: 3, Name: "x"})
		var o struct {
			Schema    string
			Files     []map[string]any
			Processes []map[string]any
		}
		if err := json.Unmarshal(b.Bytes(), &o); err != nil {
			t.Fatalf("%v\n%s", err, b.Bytes())
		}
		if o.Schema != Schema || len(o.Files) != len(list) || len(o.Processes) != 1 || bytes.IndexByte(b.Bytes(), 0x1b) >= 0 {
			t.Errorf("%s", b.Bytes())
		}
		if len(list) > 0 && (o.Files[1]["error"] != "no" || o.Files[1]["machine"] != nil || o.Files[2]["debug_file"] == nil || o.Files[0]["unwind"] != "stops") {
			t.Errorf("%s", b.Bytes())
		}
	}
}

// full refuses to be written to.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteFails(t *testing.T) {
	for _, w := range []Writer{NewText(full{}, false), NewJSON(full{})} {
		if err := w.File(&health.Target{Path: "a", Report: good()}); err == nil {
			t.Error("no error")
		}
	}
}

// TestPrint: what cannot be looked at is complained of, and the rest printed; an error of
// writing is no complaint, in a process either.
func TestPrint(t *testing.T) {
	i, err := inspect.New(inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var complaints []error
	complain := func(err error) { complaints = append(complaints, err) }
	if err := Print(NewText(&out, false), i, []string{"/", self, "/none"}, []int{os.Getpid(), 1 << 30}, complain); err != nil {
		t.Fatal(err)
	}
	if len(complaints) != 3 || !strings.Contains(out.String(), self) {
		t.Errorf("%v\n%s", complaints, out.String())
	}
	complaints = nil
	j, err := inspect.New(inspect.Options{}) // i has seen all files
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, args := range []struct {
		files []string
		pids  []int
	}{{[]string{self}, nil}, {nil, []int{os.Getpid()}}} {
		if err := Print(NewText(full{}, false), j, args.files, args.pids, complain); err == nil || len(complaints) > 0 {
			t.Errorf("%+v: %v, %v", args, err, complaints)
		}
	}
}
