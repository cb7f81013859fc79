package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestReadmePictures runs the commands of README's section about pictures, and
// compares what they print.
func TestReadmePictures(t *testing.T) {
	for _, tool := range []string{"sh", "go", "grep", "sort", "head"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the commands need %s", tool)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ustack := filepath.Join(t.TempDir(), "ustack")
	if err := os.Symlink(self, ustack); err != nil {
		t.Fatal(err)
	}
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### Pictures")
	section, _, _ = strings.Cut(section, "\n### ")
	here := strings.NewReplacer("go run ./cmd/ustack", ustack, " testdata/", " "+testdata+"/", "sysroot ROOT", "sysroot "+capturetest.Unpack(t, "../../testdata/truth/rootfs.tar.zst"))
	dir, scenes := t.TempDir(), 0
	lines := strings.Split(section, "\n")
	for i, line := range lines {
		command, ok := strings.CutPrefix(line, "    $ ")
		if !ok {
			continue
		}
		scenes++
		var want []string
		for _, line := range lines[i+1:] {
			line, ok := strings.CutPrefix(line, "    ")
			if !ok || strings.HasPrefix(line, "$ ") {
				break
			}
			want = append(want, line)
		}
		cmd := exec.Command("sh", "-c", here.Replace(command))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C", "PPROF_TMPDIR="+dir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if n := len(want) - 1; n >= 0 && want[n] == "…" {
			want = want[:n]
			got = got[:min(n, len(got))]
		}
		if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
			t.Errorf("%s\nprints\n%s\nREADME.md has\n%s", command, a, b)
		}
	}
	if scenes < 4 {
		t.Errorf("%d commands to try", scenes)
	}
}
