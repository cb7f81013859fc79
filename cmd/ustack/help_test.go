package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/front"
	"ustack/cmd/ustack/internal/terminaltest"
)

// helpOutput runs ustack in this process.
func helpOutput(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, nil, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("ustack %q: exit code %d: %s", args, code, stderr.Bytes())
	}
	return stdout.String()
}

// TestHelpReaches: "ustack help" lists each command and each topic, and shows all
// of them by their names.
func TestHelpReaches(t *testing.T) {
	list := helpOutput(t, "help")
	for _, c := range commands() {
		if !strings.Contains(list, "\n  "+c.Name+" ") {
			t.Errorf("help does not list the command %s", c.Name)
		}
		text := helpOutput(t, "help", c.Name)
		topic, ok := help.Find(c.Name)
		if !ok {
			topic.Text = helpOutput(t, c.Name, "--help")
		}
		if text != topic.Text {
			t.Errorf("help %s prints\n%s", c.Name, text)
		}
	}
	for _, topic := range help.Topics() {
		if !strings.Contains(list, "\n  "+topic.Name+" ") {
			t.Errorf("help does not list the topic %s", topic.Name)
		}
		if text := helpOutput(t, "help", topic.Name); text != topic.Text {
			t.Errorf("help %s prints\n%s", topic.Name, text)
		}
	}
}

// TestHelpPager: on a terminal a topic goes through $PAGER; one that does not exist
// costs nothing.
func TestHelpPager(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("a pager is run by sh")
	}
	topic, _ := help.Find("glossary")
	first, _, _ := strings.Cut(topic.Text, "\n")
	for pager, want := range map[string]string{
		"read -r line; echo paged $line": "paged " + first + "\r\n",
		"exec /nonexistent 2>/dev/null":  strings.ReplaceAll(topic.Text, "\n", "\r\n"),
	} {
		person, tty := terminaltest.Open(t)
		cmd := exec.Command(ustackBinary(t), "help", "glossary")
		cmd.Env = append(os.Environ(), "PAGER="+pager)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tty.Close()
		seen, _ := io.ReadAll(person) // EIO when all who had the terminal have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("PAGER=%q: %v", pager, err)
		}
		if string(seen) != want {
			t.Errorf("PAGER=%q: the terminal shows\n%s\nwant\n%s", pager, seen, want)
		}
	}
}

// TestReadmeCommands: README's table has each command, and its manual each topic.
func TestReadmeCommands(t *testing.T) {
	readme := manual(t)["README"]
	for _, c := range commands() {
		if !strings.Contains(readme, "\n| `ustack "+c.Name+"` | ") {
			t.Errorf("README's table has no row for %s", c.Name)
		}
	}
	for _, topic := range help.Topics() {
		if !strings.Contains(readme, "](cmd/ustack/help/"+topic.Name+".md)") {
			t.Errorf("README has no link to the topic %s", topic.Name)
		}
	}
	if n := strings.Count(readme, "\n"); n > 150 {
		t.Errorf("README has %d lines", n)
	}
}

// TestReadmeNames: tests and files that README, the manual and CONTRIBUTING
// name exist.
func TestReadmeNames(t *testing.T) {
	tests := testNames(t)
	pages := manual(t)
	contributing, err := os.ReadFile("../../.github/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	pages["CONTRIBUTING"] = string(contributing)
	for name, page := range pages {
		for _, m := range testName.FindAllString(page, -1) {
			if !tests[m] {
				t.Errorf("%s: there is no %s", name, m)
			}
		}
		for _, m := range fileName.FindAllStringSubmatch(page, -1) {
			if found, err := filepath.Glob("../../" + m[1]); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", name, m[1])
			}
		}
	}
}

var (
	testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	// fileName is a path of the source tree that a page has in code quotes.
	fileName = regexp.MustCompile("`((?:cmd|tracefs|filemap|render|testdata|\\.ci|\\.github)/[-\\w./*]+)`")
)

// testNames returns the names of all tests, benchmarks and fuzz targets.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile("../../" + name)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestReadmeWords: README, the manual and the help of all commands do without
// words that the glossary has better ones for.
func TestReadmeWords(t *testing.T) {
	var text strings.Builder
	for _, page := range manual(t) {
		text.WriteString(page)
	}
	text.WriteString(helpOutput(t, "help"))
	for _, c := range commands() {
		text.WriteString(helpOutput(t, c.Name, "--help"))
	}
	text.WriteString(helpOutput(t, "futex", "--live", "--help"))
	words := len(regexp.MustCompile(`\pL[\pL\pN_'-]*`).FindAllString(text.String(), -1))
	for pattern, most := range map[string]int{ // in 10,000 words
		`tells?|told|telling`:                   1,
		`(?:no|some|any)body|whoever`:           1,
		`behind`:                                1,
		`folders?`:                              0,
		`th(?:at|ose) of`:                       2,
		`stems?|askers?|unfiled memory|judged?`: 0,
		`hold(?:s|ing)? back|held back`:         0,
		`let(?:s|ting)? go`:                     0,
	} {
		found := regexp.MustCompile(`(?i)[^\n]*\b(?:`+pattern+`)\b[^\n]*`).FindAllString(text.String(), -1)
		if len(found)*10_000 > most*words {
			t.Errorf("%s: %d in %d words, at most %d in 10,000:\n%s", pattern, len(found), words, most, strings.Join(found, "\n"))
		}
	}
	t.Logf("%d words", words)
}

// TestFrontFlags: the short form knows which flags of futex --live have a value, so what
// follows one that has none is the process.
func TestFrontFlags(t *testing.T) {
	var out strings.Builder
	if code := run([]string{"futex", "--live", "--help"}, nil, &out, io.Discard); code != exitOK {
		t.Fatal(code)
	}
	flags := 0
	for line := range strings.Lines(out.String()) {
		m := regexp.MustCompile(`^  (-[-a-z]+)( [A-Z]\S*)?(\t|\n)`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		flags++
		if _, ok := front.Args([]string{m[1], "1234"}, "/proc"); ok != (m[2] == "" || m[1] == "-p") {
			t.Errorf("%s: the short form takes the next argument for a process: %v", m[1], ok)
		}
	}
	if flags < 30 {
		t.Errorf("%d flags", flags)
	}
}
