package destination

import (
	"bytes"
	"io"
	"os"
	"unicode/utf8"

	"ustack/render"
	"ustack/render/brief"
	"ustack/render/paint"
)

// terminal keeps a text until its end, and shows it then. Control characters are shown as
// escapes. The text is a report, whose size its analysis bounds.
type terminal struct {
	to     io.Writer
	colors bool
	pager  *pager // nil for none
	text   bytes.Buffer
	clean  *render.Sanitizer
}

func newTerminal(to io.Writer, colors bool, p *pager) *terminal {
	t := &terminal{to: to, colors: colors, pager: p}
	t.clean = render.NewSanitizer(&t.text)
	return t
}

// Write implements io.Writer.
func (t *terminal) Write(p []byte) (int, error) { return t.clean.Write(p) }

// EscapesControls implements render.SafeWriter.
func (t *terminal) EscapesControls() {}

// Close shows the text.
func (t *terminal) Close() error {
	text := t.text.Bytes()
	if tty, ok := t.to.(*os.File); ok && t.pager != nil && t.long(tty) && t.pager.show(t.painted(t.pager.colors), tty) {
		return nil
	}
	if len(text) == 0 {
		return nil
	}
	_, err := t.to.Write(t.painted(true))
	return err
}

// painted returns the text with colors if they are wanted and can be shown.
func (t *terminal) painted(can bool) []byte {
	if t.colors && can {
		return paint.Report(t.text.Bytes())
	}
	return t.text.Bytes()
}

// long reports whether the text does not fit on the screen, whose last row is for the
// shell's next prompt.
func (t *terminal) long(tty *os.File) bool {
	rows, columns := render.NewScreen(tty).Size()
	for line := range bytes.Lines(t.text.Bytes()) {
		width := utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n")))
		rows -= 1 + max(width-1, 0)/columns
	}
	return rows <= 0
}

// Rows returns how many rows the terminal has (brief.Room). Colors can go to a file or a pipe,
// too, which have room for any report.
func (t *terminal) Rows() int {
	screen := render.NewScreen(t.to)
	if screen == nil {
		return brief.Lines + 1
	}
	rows, _ := screen.Size()
	return rows
}
