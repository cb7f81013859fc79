//go:build !device

package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ustack/render/page/browser"
	"ustack/tracefs/capturetest"
)

// htmlData is what the page draws.
type htmlData struct {
	Title, Unit string
	Names       []string
	Nodes       [][3]int64 // name, parent, weight
	Parts       [][3]int64 // node, row, weight
}

var htmlScript = regexp.MustCompile(`(?s)<script type="application/json" id="data-profile">(.*?)</script>`)

func readHTML(t *testing.T, page string) htmlData {
	t.Helper()
	m := htmlScript.FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no data in the page\n%s", page)
	}
	var d htmlData
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatalf("%v\n%s", err, m[1])
	}
	return d
}

// TestHTML: the page has the stacks of the folded lines, whatever they are
// called.
func TestHTML(t *testing.T) {
	p, symbols := small()
	evil := `</script><script>alert(1)</script><!--` + "\u2028@PROFILE@\x01\"\\"
	p.Add(p.Stack([]Frame{{Memory: evil}}, nil, false), Labels{Comm: evil}, Value{Count: 100})
	waits := New(Waits)
	waits.Add(waits.Stack([]Frame{{Memory: "[x]"}}, nil, false), Labels{Comm: "y"}, Value{Count: 1, Time: 8e9})
	for name, p := range map[string]*Profile{"small": p, "waits": waits, "none": New(Samples)} {
		t.Run(name, func(t *testing.T) {
			page := written(t, p, "html", symbols)
			if n := strings.Count(page, "</script>"); n != 2 {
				t.Errorf("%d scripts end: a name ends one", n)
			}
			d := readHTML(t, page)
			self := make([]int64, len(d.Nodes))
			paths := make([]string, len(d.Nodes))
			for i, n := range d.Nodes {
				self[i] += n[2]
				if i == 0 {
					continue
				}
				if n[1] >= int64(i) {
					t.Fatalf("node %d is before its parent", i)
				}
				self[n[1]] -= n[2]
				paths[i] = strings.TrimPrefix(paths[n[1]]+";"+inFolded(d.Names[n[0]]), ";")
			}
			got := make(map[string]int64)
			for i, n := range self {
				if n != 0 {
					got[paths[i]] = n
				}
			}
			lines := 0
			for line := range strings.Lines(written(t, p, "folded", symbols)) {
				lines++
				at := strings.LastIndexByte(line, ' ')
				var want int64
				if err := json.Unmarshal([]byte(line[at:]), &want); err != nil || got[line[:at]] != want {
					t.Errorf("%d of %q, want %d", got[line[:at]], line[:at], want)
				}
			}
			if len(got) != lines {
				t.Errorf("%d stacks, want %d", len(got), lines)
			}
		})
	}
}

// TestHTMLParts: what the rows of a table weigh in the tree is what their samples
// weigh, though they share stacks.
func TestHTMLParts(t *testing.T) {
	p := New(Waits)
	a, b := p.Stack([]Frame{{Memory: "[a]"}}, nil, false), p.Stack([]Frame{{Memory: "[b]"}}, nil, false)
	for _, s := range []struct {
		stack int32
		Labels
		Value
	}{
		{a, Labels{Comm: "x", Row: 1}, Value{1, 10}}, {a, Labels{Comm: "x", Row: 2}, Value{1, 20}},
		{b, Labels{Comm: "x", Row: 2}, Value{1, 40}}, {b, Labels{Comm: "x"}, Value{1, 80}}, {b, Labels{Comm: "y", Row: 3}, Value{1, 0}},
	} {
		p.Add(s.stack, s.Labels, s.Value)
	}
	d := readHTML(t, written(t, p, "html", nil))
	got := make(map[string]int64)
	for _, part := range d.Parts {
		got[fmt.Sprintf("%s of row %d", d.Names[d.Nodes[part[0]][0]], part[1])] += part[2]
	}
	want := map[string]int64{"[a] of row 0": 10, "[a] of row 1": 20, "[b] of row 1": 40}
	if !maps.Equal(got, want) {
		t.Errorf("the rows weigh %v, want %v", got, want)
	}
}

// TestHTMLInBrowser clicks and types.
func TestHTMLInBrowser(t *testing.T) {
	capturetest.SkipShort(t)
	p, symbols := small()
	name := filepath.Join(t.TempDir(), "p.html")
	if err := os.WriteFile(name, []byte(written(t, p, "html", symbols)), 0o666); err != nil {
		t.Fatal(err)
	}
	b := browser.Open(t, name, 1000, 600)
	var seen []string
	note := func(what string) {
		seen = append(seen, what+"="+b.Eval(`document.querySelectorAll("#graph > div").length + "/" + (document.activeElement.dataset.node ? document.activeElement.textContent : document.activeElement.tagName)`))
	}
	note("begin")
	b.ClickOn(`[...document.querySelectorAll("#graph > div")].find(b => b.textContent === "work")`)
	note("click")
	for _, step := range []struct {
		name string
		keys []string
	}{
		{"down", []string{"ArrowDown"}}, {"up", []string{"ArrowUp", "ArrowUp"}}, {"enter", []string{"Enter"}},
		{"escape", []string{"Escape", "Escape", "Escape"}}, {"left", []string{"ArrowDown", "ArrowLeft"}},
		{"right", []string{"ArrowRight", "ArrowRight"}}, {"slash", []string{"/"}},
	} {
		b.Key(step.keys...)
		note(step.name)
	}
	find := func(text string) {
		b.Eval("byId('search').select()")
		b.Type(text)
		seen = append(seen, b.Eval(`byId("found").textContent + " " + document.querySelectorAll(".hit").length`))
	}
	find("LEAF")
	find("/^(wait|leaf)$/")
	want := []string{"begin=19/BODY", "click=7/work", "down=7/??", "up=7/app+0x2000", "enter=7/app+0x2000", "escape=19/all",
		`left=19/a;p\u000a` + "\ufffdp", "right=19/app", "slash=19/INPUT", "1 name, 9 stacks, 60.00 % 2", "2 names, 9 stacks, 60.00 % 4"}
	if !slices.Equal(seen, want) {
		t.Errorf("the page shows\n%q, want\n%q", seen, want)
	}
	b.Quiet()
}
