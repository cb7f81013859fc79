//go:build !device

package symbols

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/terminaltest"
	"ustack/render"
)

// TestFetchShown: while a server makes its client wait, the terminal shows which server that
// is and how much has come, and nothing is left of it in the end.
func TestFetchShown(t *testing.T) {
	person, tty := terminaltest.Open(t)
	screen := terminaltest.Watch(t, person)
	goOn := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20000")
		_, _ = w.Write(make([]byte, 5000)) // an error shows on the terminal
		w.(http.Flusher).Flush()
		<-goOn
	}))
	defer server.Close()
	t.Setenv("DEBUGINFOD_URLS", strings.Replace(server.URL, "http://", "http://user:secret@", 1))
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	t.Setenv("DEBUGINFOD_TIMEOUT", "60")
	messages := render.Output(tty)
	fetch, err := fetcher("", render.Progress(messages, false))
	if err != nil {
		t.Fatal(err)
	}
	fetched := make(chan error)
	go func() {
		_, err := fetch("0123456789abcdef0123456789abcdef01234567", "debuginfo")
		fetched <- err
	}()
	screen.Until("fetching the debuginfo of 01234567 from " + strings.TrimPrefix(server.URL, "http://") + ": 25 % of 20 KB")
	close(goOn)
	if err := <-fetched; err == nil {
		t.Error("a part of a file was taken for it")
	}
	if _, err := tty.WriteString("the end"); err != nil {
		t.Fatal(err)
	}
	seen := screen.Until("the end")
	if !strings.HasSuffix(seen, " \rthe end") || strings.Contains(seen, "secret") || strings.Contains(seen, "\n") {
		t.Errorf("%q", seen)
	}
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil || render.Progress(render.Output(null), false) != nil {
		t.Errorf("progress in a file (%v)", err)
	}
}
