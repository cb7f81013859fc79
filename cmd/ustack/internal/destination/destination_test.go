package destination

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/terminaltest"
	"ustack/render"
	"ustack/render/brief"
	"ustack/render/outfile"
)

// shown returns what a terminal shows of a text, up to a mark that is written after it.
func shown(t *testing.T, f *Flags, text string) string {
	t.Helper()
	const mark = "=mark="
	person, tty := terminaltest.Open(t)
	defer tty.Close()
	sent := make(chan error, 1)
	go func() {
		err := f.Send(tty, true, func(w io.Writer) error {
			if !render.IsTerminalWriter(render.Output(w)) {
				return errors.New("nothing makes control characters visible")
			}
			_, err := io.WriteString(w, text)
			return err
		})
		_, merr := tty.WriteString(mark)
		sent <- errors.Join(err, merr)
	}()
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), mark) {
		if err := person.SetReadDeadline(time.Now().Add(time.Minute)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
			t.Fatal(err)
		}
		n, err := person.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		seen.Write(buf[:n])
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSuffix(seen.String(), mark), "\r\n", "\n")
}

// flags parses them.
func flags(t *testing.T, args ...string) *Flags {
	t.Helper()
	var f Flags
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	f.Register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f
}

// TestTerminal: text has colors there unless they are not wanted, and what a stranger can
// have put into it has none.
func TestTerminal(t *testing.T) {
	const text = "Answer\n  label   x\033[31my\n"
	const plain = "Answer\n  label   x\\033[31my\n"
	const colored = "\033[1mAnswer\033[0m\n  \033[36mlabel\033[0m   x\\033[31my\n"
	for _, c := range []struct {
		noColor, term string
		args          []string
		want          string
	}{
		{"", "xterm", nil, colored},
		{"1", "xterm", nil, plain},
		{"", "dumb", nil, plain},
		{"", "xterm", []string{"--color=never"}, plain},
		{"1", "dumb", []string{"--color=always"}, colored},
	} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		if got := shown(t, flags(t, c.args...), text); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestPager: a text that does not fit goes through the pager, one that fits does not, and
// a pager that is not there loses nothing.
func TestPager(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	short, long := strings.Repeat("line\n", 20), strings.Repeat("line\n", 100)
	t.Setenv("PAGER", "echo paged; cat >/dev/null")
	if got := shown(t, flags(t), short); got != short {
		t.Errorf("a short text: %q", got)
	}
	if got := shown(t, flags(t), long); got != "paged\n" {
		t.Errorf("a long text: %q", got)
	}
	// Characters count, and not the bytes that they take.
	if got, wide := shown(t, flags(t), strings.Repeat(strings.Repeat("…", 80)+"\n", 23)), strings.Repeat(strings.Repeat("…", 81)+"\n", 23); strings.Contains(got, "paged") || shown(t, flags(t), wide) != "paged\n" {
		t.Errorf("wide lines: %q", got)
	}
	for _, pager := range []string{"never", "cat", "/nonexistent"} {
		if got := shown(t, flags(t, "--pager="+pager), long); !strings.HasSuffix(got, long) {
			t.Errorf("%s: %q", pager, got)
		}
	}
}

// TestFile: a named file is new, private, and no link is followed; elsewhere the text is
// as it was written.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out")
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "Text \033[1m\n")
		return err
	}
	if err := flags(t, "-o", name).Send(io.Discard, true, write); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "Text \033[1m\n" {
		t.Errorf("%q, %v", got, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	if err := flags(t, "-o", link).Stream(io.Discard, write); !errors.Is(err, outfile.ErrLink) {
		t.Errorf("a link: %v", err)
	}
	var pipe bytes.Buffer
	if err := flags(t).Send(&pipe, true, write); err != nil || pipe.String() != "Text \033[1m\n" {
		t.Errorf("%q, %v", &pipe, err)
	}
	pipe.Reset()
	if err := flags(t, "--color=always").Send(&pipe, true, write); err != nil || pipe.String() != "\033[1mText \\033[1m\033[0m\n" {
		t.Errorf("%q, %v", &pipe, err)
	}
	testColoredPipe(t)
	var bad Flags
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	bad.Register(fs)
	if err := fs.Parse([]string{"--color=sometimes"}); err == nil {
		t.Error("--color=sometimes is no error")
	}
}

// testColoredPipe: colors that go to a pipe of the system have room for a whole report.
func testColoredPipe(t *testing.T) {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	room := 0
	err = flags(t, "--color=always").Send(to, true, func(w io.Writer) error {
		room = brief.Room(w)
		_, err := io.WriteString(w, "Text\n")
		return err
	})
	to.Close()
	if text, rerr := io.ReadAll(from); err != nil || rerr != nil || room != brief.Lines || string(text) != "\033[1mText\033[0m\n" {
		t.Errorf("room for %d lines, %q, %v, %v", room, text, err, rerr)
	}
}
