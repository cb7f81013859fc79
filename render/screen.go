package render

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Screen is a terminal on which a text takes the place of the one before.
type Screen struct {
	f     *os.File
	begun bool
	buf   []byte
}

// NewScreen returns the screen of a terminal, nil if w is none.
func NewScreen(w io.Writer) *Screen {
	if f, ok := w.(*os.File); ok && IsTerminal(f) {
		return &Screen{f: f}
	}
	return nil
}

// Control sequences of a terminal (ECMA-48; every terminal since the VT100 knows it).
const (
	clearAll  = "\033[2J"
	goHome    = "\033[H"
	clearLine = "\033[K"
	clearRest = "\033[J"
)

// Size returns how many rows and columns the terminal reports.
func (s *Screen) Size() (rows, columns int) {
	const usualRows, usualColumns = 24, 80
	size, err := unix.IoctlGetWinsize(int(s.f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 || size.Col == 0 {
		return usualRows, usualColumns
	}
	return int(size.Row), int(size.Col)
}

// Show shows as much of a text as there is room for. Control characters of it
// are shown as escapes.
func (s *Screen) Show(text []byte) error {
	rows, columns := s.Size()
	var clean bytes.Buffer
	if _, err := NewSanitizer(&clean).Write(text); err != nil {
		return err // a Buffer has none
	}
	s.buf = append(s.buf[:0], goHome...)
	if !s.begun {
		s.buf, s.begun = append(s.buf, clearAll...), true
	}
	for line := range bytes.Lines(clean.Bytes()) {
		if rows--; rows == 0 {
			break // the last row stays free: after it, the terminal would scroll
		}
		s.buf = append(s.buf, head(bytes.TrimSuffix(line, []byte("\n")), columns)...)
		s.buf = append(s.buf, clearLine+"\n"...)
	}
	s.buf = append(s.buf, clearRest...)
	if _, err := s.f.Write(s.buf); err != nil {
		return fmt.Errorf("writing to the terminal: %w", err)
	}
	return nil
}

// Clear clears the screen's text.
func (s *Screen) Clear() error {
	if s == nil || !s.begun {
		return nil
	}
	s.begun = false
	if _, err := s.f.WriteString(goHome + clearRest); err != nil {
		return fmt.Errorf("writing to the terminal: %w", err)
	}
	return nil
}

// head returns the part of a line that fits into some columns. A tab, and a
// character of more than one column, may take more room: then the terminal
// breaks the line.
func head(line []byte, columns int) []byte {
	n := 0
	for range columns {
		if n == len(line) {
			break
		}
		_, size := utf8.DecodeRune(line[n:])
		n += size
	}
	return line[:n]
}
