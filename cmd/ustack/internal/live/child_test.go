package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChild(t *testing.T) {
	for _, test := range []struct {
		args []string
		out  string
		code int
	}{
		{[]string{"sh", "-c", "echo out; exit 7"}, "out\n", 7},
		{[]string{"true"}, "", 0},
		{[]string{"sh", "-c", "kill -TERM $$"}, "", 128 + 15},
	} {
		out := newChildOutput(t)
		c, err := startChild(test.args, nil, out.File, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.text(t); got != "" || c.pid() <= 0 {
			t.Errorf("%s: it ran before it was let", test.args)
		}
		if err := c.release(); err != nil {
			t.Fatal(err)
		}
		<-c.done
		if got := out.text(t); got != test.out || c.exitCode() != test.code {
			t.Errorf("%s: printed %q and exited with %d, want %q and %d", test.args, got, c.exitCode(), test.out, test.code)
		}
	}
}

func TestChildThatCannotStart(t *testing.T) {
	_, err := startChild([]string{"/nowhere/at-all"}, nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "starting /nowhere/at-all") {
		t.Errorf("error %v", err)
	}
}

func TestChildNeverReleased(t *testing.T) {
	out := newChildOutput(t)
	c, err := startChild([]string{"sh", "-c", "echo ran"}, nil, out.File, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.kill()
	if got := out.text(t); got != "" {
		t.Errorf("it ran: %q", got)
	}
}

// childOutput is a file a child prints to: unlike a buffer it can be looked at
// while the child runs.
type childOutput struct{ *os.File }

func newChildOutput(t *testing.T) childOutput {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return childOutput{f}
}

// text returns what has been printed so far.
func (o childOutput) text(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(o.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
