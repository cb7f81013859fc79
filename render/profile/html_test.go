package profile

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// htmlData is what the page draws.
type htmlData struct {
	Title, Unit string
	Names       []string
	Nodes       [][3]int64 // name, parent, weight
}

var htmlScript = regexp.MustCompile(`(?s)<script type="application/json" id="profile">(.*?)</script>`)

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
// called, and fetches nothing.
func TestHTML(t *testing.T) {
	p, symbols := small()
	evil := `</script><script>alert(1)</script><!--` + "\u2028@PROFILE@\x01\"\\"
	p.Add(p.Stack([]Frame{{Memory: evil}}, false), Labels{Comm: evil}, Value{Count: 100})
	waits := New(Waits)
	waits.Add(waits.Stack([]Frame{{Memory: "[x]"}}, false), Labels{Comm: "y"}, Value{Count: 1, Time: 8e9})
	for name, p := range map[string]*Profile{"small": p, "waits": waits, "none": New(Samples)} {
		t.Run(name, func(t *testing.T) {
			page := written(t, p, "html", symbols)
			if strings.Count(page, "</script>") != strings.Count(pageText(t), "</script>") {
				t.Error("a name ends the script")
			}
			d := readHTML(t, page)
			self := make([]int64, len(d.Nodes))
			paths := make([]string, len(d.Nodes))
			clean := strings.NewReplacer(";", ":", "\n", " ")
			for i, n := range d.Nodes {
				self[i] += n[2]
				if i == 0 {
					continue
				}
				if n[1] >= int64(i) {
					t.Fatalf("node %d is before its parent", i)
				}
				self[n[1]] -= n[2]
				paths[i] = strings.TrimPrefix(paths[n[1]]+";"+clean.Replace(d.Names[n[0]]), ";")
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
	for _, fetch := range []string{"http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("} {
		if strings.Contains(pageText(t), fetch) {
			t.Errorf("the page has %s", fetch)
		}
	}
}

// pageText is the page without data; the place for them is there once.
func pageText(t *testing.T) string {
	t.Helper()
	if strings.Count(page, profileMark) != 1 {
		t.Fatalf("the page has %s %d times", profileMark, strings.Count(page, profileMark))
	}
	return page
}

// htmlDriver uses the page as a person would, and leaves in its title what is
// to be seen.
const htmlDriver = `<script>
onload = () => {
  const seen = [], box = name => [...document.querySelectorAll("#graph > div")].find(b => b.textContent === name);
  const key = k => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: k, bubbles: true}));
  const note = what => seen.push(what + "=" + document.querySelectorAll("#graph > div").length + "/" + (document.activeElement.dataset.node ? document.activeElement.textContent : document.activeElement.tagName));
  note("begin");
  box("work").click(); note("click");
  key("ArrowDown"); note("down");
  key("ArrowUp"); key("ArrowUp"); note("up");
  key("Enter"); note("enter");
  key("Escape"); key("Escape"); key("Escape"); note("escape");
  key("ArrowDown"); key("ArrowLeft"); note("left");
  key("ArrowRight"); key("ArrowRight"); note("right");
  key("/"); note("slash");
  search.value = "LEAF"; search.dispatchEvent(new Event("input"));
  seen.push(document.getElementById("found").textContent, document.querySelectorAll(".hit").length);
  search.value = "/^(wait|leaf)$/"; search.dispatchEvent(new Event("input"));
  seen.push(document.getElementById("found").textContent, document.querySelectorAll(".hit").length);
  document.title = seen.join(" ");
};
</script>`

// TestHTMLInBrowser clicks and types in headless Chromium.
func TestHTMLInBrowser(t *testing.T) {
	bin, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium to draw with")
	}
	p, symbols := small()
	name := filepath.Join(t.TempDir(), "p.html")
	page := strings.Replace(written(t, p, "html", symbols), "</body>", htmlDriver+"</body>", 1)
	if err := os.WriteFile(name, []byte(page), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, bin, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,600",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=2000", "--dump-dom", "file://"+name).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, title, _ := strings.Cut(string(out), "<title>")
	title, _, _ = strings.Cut(title, "</title>")
	const want = "begin=19/BODY click=7/work down=7/?? up=7/app+0x2000 enter=7/app+0x2000 escape=19/all " +
		"left=19/a;p \ufffdp right=19/app slash=19/INPUT 1 name, 9 stacks, 60.00 % 2 2 names, 9 stacks, 60.00 % 4"
	title = strings.Join(strings.Fields(title), " ") // one of the names has a line feed
	if title != want {
		t.Errorf("the page says\n%s\nwant\n%s", title, want)
	}
}
