// Package terminaltest opens terminals for tests.
package terminaltest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Open opens a terminal (man 4 pts): the side of the person who sits there, and the side
// that programs have. The person's is closed at the end of the test. The test is skipped
// where there are no terminals.
func Open(t testing.TB) (person, tty *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return person, tty
}

// Screen has what a person has seen on a terminal.
type Screen struct {
	t     testing.TB
	parts chan string
	seen  strings.Builder
}

// patience is how long the person waits for anything.
const patience = 3 * time.Minute

// Watch has the person look at the terminal, until the side that programs have is closed.
func Watch(t testing.TB, person *os.File) *Screen {
	s := &Screen{t: t, parts: make(chan string, 1024)}
	go func() {
		defer close(s.parts)
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			if n > 0 {
				s.parts <- string(buf[:n])
			}
			if err != nil {
				return // EIO: all that had the terminal have closed it
			}
		}
	}()
	return s
}

// Until waits until a text has been written, and returns all that was written since Next was
// called last.
func (s *Screen) Until(text string) string {
	s.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !strings.Contains(s.seen.String(), text) {
		select {
		case part, ok := <-s.parts:
			if s.seen.WriteString(part); !ok {
				s.t.Fatalf("the terminal was closed without %q; it has\n%q", text, s.seen.String())
			}
		case <-late.C:
			s.t.Fatalf("no %q on the terminal in %v; it has\n%q", text, patience, s.seen.String())
		}
	}
	return s.seen.String()
}

// Next waits until a text is written after what has been seen, and returns that.
func (s *Screen) Next(text string) string {
	s.t.Helper()
	s.seen.Reset()
	return s.Until(text)
}

// Rest waits until the side that programs have is closed, and returns all that was
// written since Next was called last.
func (s *Screen) Rest() string {
	s.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case part, ok := <-s.parts:
			if s.seen.WriteString(part); !ok {
				return s.seen.String()
			}
		case <-late.C:
			s.t.Fatalf("the terminal was not closed in %v; it has\n%q", patience, s.seen.String())
		}
	}
}
