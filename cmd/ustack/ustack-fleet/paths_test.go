package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
	"ustack/tracefs/capturetest"
)

// lie sorts before the path that it stands for.
const lie = "/a/lie"

// lyingReports are three reports of the same events, of which the first has another path.
func lyingReports(t *testing.T, dir string) (files []string) {
	t.Helper()
	trace := capturetest.Read(t, testdata+"/lab-live/hash/save-text/trace.txt.zst")
	for i, os := range []string{"it's", "it's", "two"} {
		if i > 0 {
			trace = bytes.ReplaceAll(trace, []byte(lie), []byte(plug))
		} else {
			trace = bytes.ReplaceAll(trace, []byte(plug), []byte(lie))
		}
		name := filepath.Join(dir, fmt.Sprintf("path%d.txt", i))
		writeFile(t, name, append(fmt.Appendf(nil, "# ustack: escaped=1\n# ustack: boot_id=path%d\n# ustack: os=%s\n", i, os), trace...))
		files = append(files, name)
	}
	return files
}

const plug = "/opt/labs/wl/libplug4.so"

// TestPathOfLie: the same, from reports. One that is alone is believed.
func TestPathOfLie(t *testing.T) {
	dir := t.TempDir()
	files := lyingReports(t, dir)
	for _, c := range []struct {
		files     []string
		has, lies bool
	}{{files, true, false}, {files[:1], false, true}} {
		db := filepath.Join(dir, fmt.Sprint(len(c.files)))
		ran(t, command.OK, append([]string{"export", "-q", "-o", db}, c.files...)...)
		text, _ := ran(t, command.OK, "fleet", "top", "--format=csv", db)
		if strings.Contains(text, plug) != c.has || strings.Contains(text, lie) != c.lies {
			t.Errorf("%d reports: %s", len(c.files), text)
		}
	}
}

// TestPathOfMost: the file of a site has the path that most devices report, however often the others do,
// and of several the least. A report counts for one path.
func TestPathOfMost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s, p := openPart(t, dir)
	defer s.Close()
	for i, said := range [][]string{{"/a", "/a", "/a"}, {"/usr/bin/x"}, {"/usr/bin/x", "/z"}, {"/y", "/usr/bin/x"}, {"/a"}} {
		c := newCollector()
		c.head["boot_id"], c.head["os"] = fmt.Sprint("d", min(i, 3)), []string{"A", "B"}[i%2]
		if i == 4 { // again the device that lies
			c.head["boot_id"] = "d0"
		}
		for _, path := range said {
			offset, ns := int64(0x10), int64(5)
			row, at := sampleRow{Event: futexWait, NS: &ns, Weight: 1}, &stack{site: &frameRow{BuildID: some("ab"), Path: &path, Offset: &offset}}
			row.at(at)
			row.of(&lock{is: true, kind: "mutex"}, at)
			c.samples = append(c.samples, row)
		}
		c.finish(uint64(i+1), "report", now())
		if err := s.add(p, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish("part-test"); err != nil {
		t.Fatal(err)
	}
	for _, q := range [][]string{{"top"}, {"top", "--exact"}, {"estimate"}, {"diff", "--a=A", "--b=B"}} {
		rows, _ := answerOf(t, append(q, dir)...)
		want := "/usr/bin/x"
		if len(rows) != 2 || !slices.Contains(rows[1], want) {
			t.Errorf("%s: %s, want %s", q, rows, want)
		}
	}
	sameAsSamples(t, dir, "A", "B")
}
