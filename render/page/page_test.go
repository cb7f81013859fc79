package page

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/render/page/browser"
	"ustack/tracefs/capturetest"
)

const evil = `</script><script>window.evil = 1</script><!-- <img src=x onerror="window.evil = 1">`

// evilPage has a text that would like to be more.
func evilPage(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	part := Part{Style: "#a { color: red; }\n", Body: `<p id="a"></p>` + "\n", Script: "const data = load(\"words\");\nbyId(\"a\").textContent = data.text;\n"}
	data := Data{ID: "words", Write: func(w *bufio.Writer) error {
		_, err := w.WriteString(`{"text":"` + strings.ReplaceAll(evil, `"`, `\"`) + `\u202e\u2028\u0007\n"}`)
		return err
	}}
	if err := Write(&out, "title", []Part{part}, []Data{data}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPage(t *testing.T) {
	page := evilPage(t)
	if n := strings.Count(page, "</script>"); n != 2 {
		t.Errorf("%d scripts end, want 2", n)
	}
	for _, fetch := range []string{"http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "import(", "innerHTML"} {
		if strings.Contains(strings.ReplaceAll(page, "img src=", ""), fetch) {
			t.Errorf("the page has %s", fetch)
		}
	}
	failed := errors.New("no data")
	err := Write(&bytes.Buffer{}, "title", nil, []Data{{"a", func(*bufio.Writer) error { return failed }}})
	if !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
}

// TestPageInBrowser: what a trace says is text, and no other script than the page's
// runs, wherever it may be.
func TestPageInBrowser(t *testing.T) {
	capturetest.SkipShort(t)
	file := filepath.Join(t.TempDir(), "a.html")
	if err := os.WriteFile(file, []byte(evilPage(t)), 0o666); err != nil {
		t.Fatal(err)
	}
	b := browser.Open(t, file, 600, 400)
	if got, want := b.Eval(`byId("a").textContent`), evil+`\u202e\u2028\u0007\u000a`; got != want {
		t.Errorf("the page shows %q, want %q", got, want)
	}
	if color := b.Eval(`getComputedStyle(byId("a")).color`); color != "rgb(255, 0, 0)" {
		t.Errorf("its color is %s", color)
	}
	for _, c := range []struct{ ns, want string }{
		{"0", "0"}, {"999", "999 ns"}, {"1000", "1.00 us"}, {"9994", "9.99 us"}, {"9996", "10.0 us"}, {"99960", "100 us"},
		{"999600", "1.00 ms"}, {"41700000", "41.7 ms"}, {"1390000000", "1.39 s"},
	} {
		if got := b.Eval(`duration(` + c.ns + `, "nanoseconds")`); got != c.want {
			t.Errorf("%s ns is %q, want %q", c.ns, got, c.want)
		}
	}
	b.Quiet()
	b.Eval(`document.body.append(Object.assign(document.createElement("script"), {textContent: "window.evil = 1"}))`)
	if got := b.Eval("window.evil"); got != "undefined" || len(b.Complaints) == 0 {
		t.Errorf("a script that is not of the page has run: %s; the browser says %q", got, b.Complaints)
	}
}
