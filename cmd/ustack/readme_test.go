package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ustack/cmd/ustack/help"
	"ustack/tracefs/capturetest"
)

// transcript is a command of README or of the manual, and what it prints there.
type transcript struct {
	line    int // of the command in its page
	command string
	want    []string
}

// transcripts returns those of a page: after four blanks and "$ " a command, which
// a backslash continues on the next line, then its output, indented, too, where a
// backslash does the same.
func transcripts(page string) []transcript {
	const indent, prompt = "    ", "    $ "
	var out []transcript
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		command, ok := strings.CutPrefix(lines[i], prompt)
		if !ok {
			continue
		}
		t := transcript{line: i + 1}
		for strings.HasSuffix(command, `\`) && i+1 < len(lines) {
			i++
			command = strings.TrimSuffix(command, `\`) + strings.TrimSpace(lines[i])
		}
		t.command = command
		for i+1 < len(lines) && !strings.HasPrefix(lines[i+1], prompt) {
			blank := lines[i+1] == "" && i+2 < len(lines) && strings.HasPrefix(lines[i+2], indent)
			if !blank && !strings.HasPrefix(lines[i+1], indent) {
				break
			}
			i++
			line := strings.TrimPrefix(lines[i], indent)
			if n := len(t.want) - 1; n >= 0 && strings.HasSuffix(t.want[n], `\`) {
				t.want[n] = strings.TrimSuffix(t.want[n], `\`) + line
			} else {
				t.want = append(t.want, line)
			}
		}
		if n := len(t.want); n > 0 && t.want[n-1] == "" {
			t.want = t.want[:n-1]
		}
		out = append(out, t)
	}
	return out
}

// same compares an output with a transcript: a last line "…" stands for the rest,
// and a line that ends in "…" is cut there.
func (tr transcript) same(output string) bool {
	got := slices.Collect(strings.Lines(output))
	want := tr.want
	if n := len(want) - 1; n >= 0 && want[n] == "…" {
		want = want[:n]
		got = got[:min(n, len(got))]
	}
	if len(got) != len(want) {
		return false
	}
	for i, line := range want {
		got := strings.TrimSuffix(got[i], "\n")
		if start, cut := strings.CutSuffix(line, "…"); got != line && (!cut || !strings.HasPrefix(got, start)) {
			return false
		}
	}
	return true
}

// programWord finds the programs of a pipeline.
var programWord = regexp.MustCompile(`(?:^|\| *)([a-z]+)`)

// needPrograms skips a command whose programs are not all here.
func needPrograms(t *testing.T, command string) {
	t.Helper()
	for _, m := range programWord.FindAllStringSubmatch(command, -1) {
		if m[1] == "ustack" {
			continue
		}
		if _, err := exec.LookPath(m[1]); err != nil {
			t.Skipf("the command needs %s", m[1])
		}
	}
}

// captureLibC is the debug file of the C library in the captures (Debian's
// libc6-dbg 2.36-9+deb12u14): the library itself has no names of inner functions.
const captureLibC = "/usr/lib/debug/.build-id/93/ac61ec5a8eb1396f9fbd350e3169a558528a40.debug"

// needSymbols skips a command that names functions, or reads what such a one has
// written, where the debug file is missing.
func needSymbols(t *testing.T, command string) {
	t.Helper()
	if !strings.Contains(command, "--sysroot") && !strings.Contains(command, ".pb.gz") {
		return
	}
	if _, err := os.Stat(captureLibC); err != nil {
		t.Skipf("the command needs %s", captureLibC)
	}
}

// manual returns README and all topics by name.
func manual(t *testing.T) map[string]string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{"README": string(readme)}
	for _, topic := range help.Topics() {
		pages[topic.Name] = topic.Text
	}
	return pages
}

// TestReadmeTranscripts runs the commands of README and of the manual that read
// files of this repository, and compares what they print: standard output, and
// ustack's own lines on standard error unless the output goes to a file.
func TestReadmeTranscripts(t *testing.T) {
	capturetest.SkipShort(t)
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("the commands need sh")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "ustack")); err != nil {
		t.Fatal(err)
	}
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	sysroot, unpacked := "", false
	dir, checked := t.TempDir(), map[string]int{}
	for name, page := range manual(t) {
		for _, tr := range transcripts(page) {
			// A command may read what the one before it has written.
			if !strings.Contains(tr.command, "testdata/") && !strings.Contains(tr.command, " ROOT/") && !strings.Contains(tr.command, ".pb.gz") {
				continue
			}
			checked[name]++
			if !unpacked && strings.Contains(tr.command, " ROOT") {
				sysroot, unpacked = truthRoot(t), true
			}
			here := strings.NewReplacer("go run ./cmd/ustack", "ustack", " testdata/", " "+testdata+"/", " ROOT", " "+sysroot)
			t.Run(fmt.Sprintf("%s:%d", name, tr.line), func(t *testing.T) {
				command := here.Replace(tr.command)
				needPrograms(t, command)
				needSymbols(t, command)
				var stdout, stderr bytes.Buffer
				cmd := exec.Command("sh", "-c", command)
				cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
				cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C", "PPROF_TMPDIR="+dir)
				if err := cmd.Run(); err != nil {
					t.Fatalf("%s: %v\n%s", tr.command, err, stderr.Bytes())
				}
				for line := range strings.Lines(stderr.String()) {
					if strings.HasPrefix(line, "ustack: ") && !strings.Contains(command, " > ") {
						stdout.WriteString(line)
					}
				}
				if got := stdout.String(); !tr.same(got) {
					t.Errorf("%s\nprints\n%s\n%s has\n%s", tr.command, got, name, strings.Join(tr.want, "\n"))
				}
			})
		}
	}
	for name, n := range checkedTranscripts {
		if checked[name] < n {
			t.Errorf("%s: %d commands to try, want %d", name, checked[name], n)
		}
	}
}

// checkedTranscripts is how many transcripts there are at least, so that none is
// lost for a change of how they are written.
var checkedTranscripts = map[string]int{"README": 1, "replay": 2, "futex": 1, "diff": 1, "symbols": 2, "formats": 6}
