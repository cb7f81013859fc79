//go:build !device

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/cmd/ustack/help"
)

// TestManPages: the pages have all words of the manual and of the commands, and groff has
// nothing to say against them.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	runs(t, exitOK, "help", "--man", dir)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]string)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(f.Name(), "ustack-"), ".")
		pages[name] = plain(string(text))
		if groff, err := exec.LookPath("groff"); err == nil {
			out, err := exec.Command(groff, "-man", "-Tutf8", "-Kutf8", "-ww", "-Wbreak", "-z", filepath.Join(dir, f.Name())).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("%s: %v: %s", f.Name(), err, out)
			}
		}
	}
	for _, topic := range help.Topics() {
		_, text, _ := strings.Cut(topic.Text, "\n")
		hasWords(t, topic.Name, pages[topic.Name], text)
	}
	for _, c := range commands() {
		hasWords(t, c.Name, pages[c.Name], helpOf(&c))
		if !strings.Contains(pages["ustack"], "ustack-"+c.Name+"(1)") {
			t.Errorf("ustack.1 does not lead to %s", c.Name)
		}
	}
}

// hasWords reports the first words of a text that are not in a page in their order.
func hasWords(t *testing.T, name, page, text string) {
	t.Helper()
	rest := page
	for _, word := range strings.Fields(strings.NewReplacer("`", "", "usage: ", "", "[", "", "\n##", "\n").Replace(text)) {
		if word == "-" || word == "#" || strings.Contains(word, "](") { // a mark of an item, a heading, a link
			continue
		}
		_, after, ok := strings.Cut(rest, word)
		if !ok {
			t.Errorf("%s: %q is not in the page, or not in its place", name, word)
			return
		}
		rest = after
	}
}

// plain returns the text of a page.
func plain(page string) string {
	page = strings.NewReplacer(`\fB`, "", `\fP`, "", `\&`, "", `\-`, "-", `\e`, `\`, `\(aq`, "'", `\(ga`, "`", `\(ha`, "^", `\(ti`, "~", `\(dq`, `"`, "[", "").Replace(page)
	return strings.ReplaceAll(page, "`", "")
}
