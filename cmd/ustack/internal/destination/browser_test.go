package destination

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestOpenPage: the page is whole when the browser gets it, which is the one of $BROWSER.
func TestOpenPage(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	shown := filepath.Join(dir, "shown")
	browser := filepath.Join(dir, "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\ncat \"$2\" >"+shown+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	send := func(text string, args ...string) error {
		var f Flags
		format := "text"
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		f.Register(fs)
		f.RegisterOpen(fs, &format)
		if err := fs.Parse(append([]string{"--open"}, args...)); err != nil || format != "html" || !f.ToFile() {
			t.Fatalf("%v, %s", err, format)
		}
		return f.Send(io.Discard, false, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
	}
	for _, line := range []string{browser + " --new", browser + " --new %s:other"} {
		t.Setenv("BROWSER", line)
		for _, args := range [][]string{nil, {"-o", filepath.Join(dir, "page")}} {
			_ = os.Remove(shown)
			err := send("<html>", args...)
			if got, rerr := os.ReadFile(shown); err != nil || rerr != nil || string(got) != "<html>" {
				t.Errorf("%s %q: %v, %v, %q", line, args, err, rerr, got)
			}
		}
	}
	// Without a page no browser starts, and without a browser the page stays.
	_ = os.Remove(shown)
	if err := send(""); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(shown); err == nil {
		t.Error("an empty page was shown")
	}
	t.Setenv("BROWSER", filepath.Join(dir, "none"))
	page := filepath.Join(dir, "kept")
	if err := send("<html>", "-o", page); !errors.Is(err, ErrNoBrowser) {
		t.Error(err)
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != "<html>" {
		t.Errorf("%q, %v", got, err)
	}
}
