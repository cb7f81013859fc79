package render

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"ustack/render/progress"
	"ustack/tracefs/escape"
)

// ErrEmpty: there was nothing to write in a format that has no words to say so.
var ErrEmpty = errors.New("there is nothing to write: no stack that this format shows was seen")

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
	// status is how many columns a line of status has that is on the terminal, 0 for none.
	// The next text takes its place.
	status int
	line   *progress.Line // nil until it is asked for
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
	s.buf = s.clear(s.buf)
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
		case r == utf8.RuneError && n == 1 || escape.Acts(r):
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

// clear clears the line of status.
func (s *Sanitizer) clear(to []byte) []byte {
	if s.status > 0 {
		to = append(append(append(to, '\r'), bytes.Repeat([]byte(" "), s.status)...), '\r')
	}
	s.status = 0
	return to
}

// showStatus shows a line of status, in ASCII, in place of the one before, and clears that if it
// is empty. What has no room is cut: a longer line would stay above the next one.
func (s *Sanitizer) showStatus(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.w.(*os.File); ok {
		_, columns := (&Screen{f: f}).Size()
		line = line[:min(len(line), columns-1)]
	}
	text := s.clear(nil)
	if len(text) == 0 {
		if line == "" {
			return
		}
		text = append(text, '\r')
	}
	s.status = len(line)
	_, _ = s.w.Write(append(text, line...)) // a line that cannot be seen changes nothing
}

// Progress returns the line of progress on w, below the messages that are written there. It
// is nil, which shows nothing, if off, or if w is no terminal (see Output).
func Progress(w io.Writer, off bool) *progress.Line {
	s := counting(w, off)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil {
		s.line = progress.New(s.showStatus)
	}
	return s.line
}
