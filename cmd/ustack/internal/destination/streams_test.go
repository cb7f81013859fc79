package destination

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/terminaltest"
)

// TestForCommand: what a command prints goes where ours is not.
func TestForCommand(t *testing.T) {
	dir := t.TempDir()
	newFile := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	out, messages, other := newFile("out"), newFile("err"), filepath.Join(dir, "other")
	both, err := os.OpenFile(out.Name(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	_, tty := terminaltest.Open(t)
	defer tty.Close()
	var buffer bytes.Buffer
	for _, c := range []struct {
		name             string
		file             string // of -o
		out, err         io.Writer
		text, moved, bad bool
	}{
		{name: "report on standard output", out: out, err: messages, moved: true},
		{name: "text on standard output", out: out, err: messages, text: true, moved: true},
		{name: "report in a pipe", out: &buffer, err: messages, moved: true},
		{name: "report in a file of its own", file: other, out: out, err: messages},
		{name: "report in what is standard output", file: out.Name(), out: out, err: messages, moved: true},
		{name: "report on a terminal", out: tty, err: messages, text: true},
		{name: "one file for both", out: out, err: both, bad: true},
		{name: "one file for both, text", out: out, err: both, text: true, moved: true},
		{name: "one file for both, and one for the report", file: other, out: out, err: both},
		{name: "both to the null device", out: null, err: null, moved: true},
	} {
		std := command.Streams{Out: c.out, Err: c.err}
		if got, err := ForCommand(nil, c.file, std, c.text); got != std || err != nil {
			t.Errorf("%s, without a command: %+v, %v", c.name, got, err)
		}
		got, err := ForCommand([]string{"true"}, c.file, std, c.text)
		if errors.Is(err, ErrMixed) != c.bad || (got.Out == c.err) != c.moved && c.out != c.err || got.Err != c.err {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// TestEmptyFile: a file into which nothing was written is not left, another one is, and so is
// what has its name meanwhile.
func TestEmptyFile(t *testing.T) {
	for _, c := range []struct {
		text string
		left bool
		move bool
	}{{"", false, false}, {"text\n", true, false}, {"", true, true}} {
		name := filepath.Join(t.TempDir(), "out")
		err := flags(t, "-o", name).Send(io.Discard, false, func(w io.Writer) error {
			if c.move {
				if err := errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := io.WriteString(w, c.text)
			return err
		})
		if _, serr := os.Stat(name); err != nil || (serr == nil) != c.left {
			t.Errorf("%+v: %v, %v", c, err, serr)
		}
	}
}
