package render

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// SafeWriter is a writer to a terminal that shows control characters as escapes by
// itself.
type SafeWriter interface {
	io.Writer
	EscapesControls()
}

// Output returns w, or if w is a terminal, a writer to it that shows control
// characters as escapes: a trace is full of untrusted strings.
func Output(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && IsTerminal(f) {
		return NewSanitizer(w)
	}
	return w
}

// IsTerminalWriter reports whether a writer that Output returned goes to a
// terminal.
func IsTerminalWriter(w io.Writer) bool {
	_, ok := w.(SafeWriter)
	return ok
}

// Sanitizer writes text with control characters, and bytes that are no UTF-8,
// as octal escapes like \033, so that they do nothing to a terminal. Line
// feeds and tabs stay. Several goroutines may write.
type Sanitizer struct {
	w io.Writer

	mu   sync.Mutex
	buf  []byte
	part []byte // of a character that the next Write goes on with
	// counting is whether the line of a counter is on the terminal. The next text takes
	// its place.
	counting bool
}

// NewSanitizer returns a Sanitizer in front of w.
func NewSanitizer(w io.Writer) *Sanitizer { return &Sanitizer{w: w} }

// EscapesControls implements SafeWriter.
func (s *Sanitizer) EscapesControls() {}

// Write implements io.Writer.
func (s *Sanitizer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = s.buf[:0]
	if s.counting {
		s.buf, s.counting = append(s.buf, clearCounter...), false
	}
	in := p
	if len(s.part) > 0 {
		in = append(s.part, p...)
		s.part = nil
	}
	for len(in) > 0 {
		r, n := utf8.DecodeRune(in)
		switch {
		case r == utf8.RuneError && n == 1 && !utf8.FullRune(in):
			s.part = append([]byte(nil), in...)
			n = len(in)
		case r == '\n' || r == '\t':
			s.buf = append(s.buf, byte(r))
		case r < ' ' || r == 0x7f || r == utf8.RuneError && n == 1 || r >= 0x80 && r < 0xa0 || bidi(r):
			for _, c := range in[:n] {
				s.buf = append(s.buf, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
			}
		default:
			s.buf = append(s.buf, in[:n]...)
		}
		in = in[n:]
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// clearCounter clears a line of up to 60 columns, which the lines of counters have.
const clearCounter = "\r                                                            \r"

// count shows the line of a counter in place of the one before, and clears it if it is
// empty. The text is ours.
func (s *Sanitizer) count(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case line != "":
		line, s.counting = "\r"+line, true
	case s.counting:
		line, s.counting = clearCounter, false
	default:
		return
	}
	_, _ = io.WriteString(s.w, line) // a counter that cannot be seen changes nothing
}

// bidi reports whether a character changes the direction of the text after it:
// such a name can look like another one.
func bidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}
