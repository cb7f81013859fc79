package help

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestTopics: each file is in the list and each topic of the list has a file,
// with a title for the list, no line over 80 columns and no control characters.
func TestTopics(t *testing.T) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	topics := Topics()
	if len(topics) != len(order) || len(names) != len(order) {
		t.Errorf("%d topics, %d files, %d names in the order", len(topics), len(names), len(order))
	}
	for _, topic := range topics {
		if topic.Summary == "" || strings.HasPrefix(topic.Summary, "#") || len(topic.Summary) > 60 {
			t.Errorf("%s: the first line is not \"# %s: SUMMARY\" of at most 60 bytes: %q", topic.Name, topic.Name, topic.Summary)
		}
		if !utf8.ValidString(topic.Text) || !strings.HasSuffix(topic.Text, "\n") {
			t.Errorf("%s: not UTF-8, or no line feed at its end", topic.Name)
		}
		for i, line := range strings.Split(topic.Text, "\n") {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s.md:%d: %d columns: %s", topic.Name, i+1, n, line)
			}
			if strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("%s.md:%d: control character: %q", topic.Name, i+1, line)
			}
		}
	}
}

// TestUsage: each text begins with the command that it is of, is at most 80 columns wide,
// and ends with a line feed.
func TestUsage(t *testing.T) {
	names, err := fs.Glob(files, "usage/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d texts: %v", len(names), err)
	}
	for _, name := range names {
		command := strings.TrimSuffix(filepath.Base(name), ".txt")
		text := Usage(command)
		begin := "usage: ustack " + strings.Replace(command, "-live", " --live", 1) + " "
		if !strings.HasPrefix(text, begin) || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s: no %q at its begin, or no line feed at its end", name, begin)
		}
		for i, line := range strings.Split(text, "\n") {
			if len(line) > 80 || strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("%s:%d: over 80 bytes, or a control character: %q", name, i+1, line)
			}
		}
	}
	if text := Usage("../help"); text != "" {
		t.Errorf("a name that no command has: %q", text)
	}
}

// TestUsageDevice: a device has the text of each command, but of these that it does not have.
func TestUsageDevice(t *testing.T) {
	without := map[string]bool{
		"completion": true, "diff": true, "export": true, "fleet": true, "mcp": true, "push": true, "query": true, "symbolize": true, "top": true, "watch": true,
	}
	source, err := os.ReadFile("files_device.go")
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(files, "usage/*.txt")
	if err != nil || len(names) <= len(without) {
		t.Fatalf("%d texts: %v", len(names), err)
	}
	for _, name := range names {
		command := strings.TrimSuffix(filepath.Base(name), ".txt")
		if has := strings.Contains(string(source), " "+name); has == without[command] {
			t.Errorf("%s: in the build for devices: %t", name, has)
		}
	}
}

// TestFindHostile: a name finds no file but a topic.
func TestFindHostile(t *testing.T) {
	for _, name := range []string{"", ".", "..", "/", "../main", "help.go", "glossary.md", "glossary\x00", strings.Repeat("x", 1<<16)} {
		if topic, ok := Find(name); ok {
			t.Errorf("%.20q is the topic %q", name, topic.Name)
		}
	}
}

// TestTopicsName: a topic cites topics that exist.
func TestTopicsName(t *testing.T) {
	for _, topic := range Topics() {
		for rest := topic.Text; ; {
			var found bool
			if _, rest, found = strings.Cut(rest, "`ustack help "); !found {
				break
			}
			name, _, _ := strings.Cut(rest, "`")
			if _, ok := Find(name); !ok && name != "TOPIC" {
				t.Errorf("%s.md cites the topic %q", topic.Name, name)
			}
		}
	}
}

// TestFilesAreTopics: the directory holds nothing that embed leaves out.
func TestFilesAreTopics(t *testing.T) {
	entries, err := filepath.Glob("*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range entries {
		if ext := filepath.Ext(name); ext != ".go" && ext != ".md" && name != "testdata" && name != "usage" {
			t.Errorf("%s is neither code nor a topic", name)
		}
	}
}

// TestGlossary: at most 40 terms, in order, each once.
func TestGlossary(t *testing.T) {
	topic, _ := Find("glossary")
	last, terms := "", 0
	for line := range strings.Lines(topic.Text) {
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		term, _, ok := strings.Cut(line[2:], ":")
		terms++
		if !ok || strings.ToLower(term) <= strings.ToLower(last) {
			t.Errorf("%q after %q", line, last)
		}
		last = term
	}
	if terms == 0 || terms > 40 {
		t.Errorf("%d terms", terms)
	}
}
