package filekind

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/render/profile"
)

// TestOf: what ustack writes for others is known by how it begins, and a trace is not taken for
// such a file.
func TestOf(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	formats := map[string]string{"pprof": "go tool pprof", "speedscope": "speedscope.app", "html": "for a browser"}
	for _, f := range profile.Formats() {
		if f.Write == nil || f.Name == "folded" { // it refuses an empty profile
			continue
		}
		var b bytes.Buffer
		if err := f.Write(&b, profile.New(profile.Samples)); err != nil {
			t.Fatal(err)
		}
		if got := Of(write(f.Name, b.Bytes())); !strings.Contains(got, formats[f.Name]) || formats[f.Name] == "" {
			t.Errorf("%s: %q", f.Name, got)
		}
	}
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	if _, err := z.Write([]byte("# tracer: nop\n")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":    {"", "an empty file"},
		"elf":      {"\x7fELF\x02", "ustack health " + filepath.Join(dir, "elf")},
		"perfetto": {"\x0a\x31\x40\x88\x95\xc6\xc6\xb2", "ui.perfetto.dev"},
		"t.xz":     {"\xfd7zXZ\x00", "xz -d"},
		"t.bz2":    {"BZh91AY", "bzip2 -d"},
		"t.lz4":    {"\x04\x22\x4d\x18", "lz4 -d"},
		"x.json":   {"{\"a\": 1}", "jq"},
		"folded":   {"git;main;f 12\ngit;main 3\n", "flamegraph.pl"},
		"a b":      {"\x7fELF\x02", "ustack health FILE looks"},
		"report":   {"56.0 ms waited for 2 locks, by 5 threads in 82.1 ms of trace\n", "a report of ustack"},
		"text":     {"# tracer: nop\n", ""},
		"line":     {"            prog-7       [000] .....     1.000000: sys_openat(dfd: 0)\n", ""},
		"zst":      {"\x28\xb5\x2f\xfd\x00", ""},
		"gz":       {gz.String(), ""},
		"newline":  {"\n1", ""},
		"perfdata": {"PERFILE2", ""},
	} {
		if got := Of(write(name, []byte(c.text))); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "none"), "/dev/null"} {
		if got := Of(name); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestExplain: the reason stays where the file is not known, or cannot be read.
func TestExplain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("bad")
	if err := Explain(bad, []string{dir, file}); !strings.Contains(err.Error(), "is no trace: it is JSON") {
		t.Error(err)
	}
	if err := Explain(bad, []string{dir}); err != bad {
		t.Error(err)
	}
	if err := Explain(nil, []string{file}); err != nil {
		t.Error(err)
	}
	if err := Explain(os.ErrNotExist, []string{file}); err != os.ErrNotExist {
		t.Error(err)
	}
}

// TestTrace: a directory of ustack live --save stands for the trace in it.
func TestTrace(t *testing.T) {
	dir := t.TempDir()
	if got := Trace(dir); got != dir {
		t.Error(got)
	}
	for _, name := range []string{"trace.txt", "spaces.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := Trace(dir); got != filepath.Join(dir, "trace.txt") {
		t.Error(got)
	}
}

// FuzzOf: no beginning of a file is too much.
func FuzzOf(f *testing.F) {
	f.Add([]byte("\x1f\x8b\x08\x00\x00"))
	f.Add([]byte("a;b 1\n"))
	f.Add([]byte("\n1@\x00"))
	f.Fuzz(func(_ *testing.T, head []byte) {
		for _, k := range kinds() {
			k.is(head)
		}
	})
}
