//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// judged is a test that counts errors of the judge, and goes on.
type judged struct {
	testing.TB
	errors int
}

func (j *judged) Errorf(string, ...any) { j.errors++ }

// TestLabJudge: a frame with the right path and no build ID has no name, and is not
// wrong; with another program's build ID, path or function it is wrong.
func TestLabJudge(t *testing.T) {
	needProgram(t, "gcc")
	work := t.TempDir()
	source := filepath.Join(work, "exe.c")
	text := "int exe_mid(int i) { return i + EXEID; }\nint main(int argc, char **argv) { return exe_mid(argc); }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[string]*labFile{}
	truth := newLabTruth(t, work)
	for _, n := range []string{"1", "2"} {
		program := filepath.Join(work, "exe"+n)
		compiler := exec.Command("gcc", "-O0", "-DEXEID="+n, "-Wl,--build-id=sha1", "-o", program, source)
		if out, err := compiler.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		files[n] = truth.file(program)
	}
	one, two := files["1"].buildID, files["2"].buildID
	mid, own := files["1"].offsetOf(t, "exe_mid"), filepath.Join(work, "exe1")
	other := fmt.Sprintf("%#x", hexValue(t, mid)+0x100)
	truth.copies = map[string][]string{"/p": {"exe1", "exe2"}, "/q": {"exe2"}}
	for _, test := range []struct {
		name                       string
		frame                      labFrame
		query                      bool
		strict                     bool
		right, wrong, withoutBuild int
	}{
		{"the program", labFrame{Path: own, BuildID: one, Offset: mid}, false, false, 1, 0, 0},
		{"a copy of it", labFrame{Path: "/p", BuildID: one, Offset: mid}, false, false, 1, 0, 0},
		{"its path, no build ID", labFrame{Path: own, Offset: mid}, false, false, 0, 0, 1},
		{"a deleted file's path, no build ID", labFrame{Path: own + " (deleted)", Offset: mid}, false, false, 0, 0, 1},
		{"a copy's path, no build ID", labFrame{Path: "/p", Offset: mid}, false, false, 0, 0, 1},
		{"a query of its path, no build ID", labFrame{Path: own, Offset: mid}, true, false, 1, 0, 0},
		{"its path, no build ID, where none is missing", labFrame{Path: own, Offset: mid}, false, true, 0, 1, 0},
		{"its path, another build ID", labFrame{Path: own, BuildID: two, Offset: mid}, false, false, 0, 1, 0},
		{"a copy's path, another build ID", labFrame{Path: "/p", BuildID: two, Offset: mid}, false, false, 0, 1, 0},
		{"another program's path, no build ID", labFrame{Path: filepath.Join(work, "exe2"), Offset: mid}, false, false, 0, 1, 0},
		{"the path of another copy, no build ID", labFrame{Path: "/q", Offset: mid}, false, false, 0, 1, 0},
		{"an unknown path, no build ID", labFrame{Path: "/lib/exe1", Offset: mid}, false, false, 0, 1, 0},
		{"its path, no build ID, outside of the function", labFrame{Path: own, Offset: other}, false, false, 0, 1, 0},
	} {
		truth.mayLackID = !test.strict
		j := &judged{TB: t}
		truth.t, truth.query = j, test.query
		c := &labCounts{unresolved: make(map[string]int)}
		test.frame.Trust = "verified"
		truth.frame(c, test.name, &test.frame, place{file: own, function: "exe_mid"}, 0)
		if c.right != test.right || c.wrong != test.wrong || c.unresolved[pathOnly] != test.withoutBuild || j.errors != test.wrong || c.inFiles() != 1 {
			t.Errorf("%s: %d errors, %v", test.name, j.errors, c)
		}
	}
}

// offsetOf is the file offset of a function.
func (b *labFile) offsetOf(t *testing.T, name string) string {
	t.Helper()
	for _, s := range b.symbols {
		for _, p := range b.file.Progs {
			if s.Name == name && p.Vaddr <= s.Value && s.Value < p.Vaddr+p.Filesz {
				return fmt.Sprintf("%#x", s.Value-p.Vaddr+p.Off)
			}
		}
	}
	t.Fatalf("no function %s", name)
	return ""
}
