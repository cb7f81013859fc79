package top

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"ustack/render"
)

// terminal is the screen on a terminal.
type terminal struct {
	program *tea.Program
	in      *os.File
	was     *unix.Termios // of in, before
	grace   time.Duration // that the terminal has to take the last of the screen
	begun   bool
	gone    chan struct{}
	err     error // once it is gone
}

// newTerminal returns the screen of a model, which is not there before Start.
func newTerminal(m *model, in, out *os.File) (*terminal, error) {
	was, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of the terminal: %w", err)
	}
	program := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithFPS(frames))
	return &terminal{program: program, in: in, was: was, grace: grace, gone: make(chan struct{})}, nil
}

// Start implements screen.
func (t *terminal) Start() {
	t.begun = true
	go func() {
		defer close(t.gone)
		_, t.err = t.program.Run()
	}()
}

// Gone implements screen.
func (t *terminal) Gone() <-chan struct{} { return t.gone }

// grace is terminal.grace.
const grace = time.Second

// Close implements screen. The settings of a terminal that takes nothing are set back
// without waiting for it.
func (t *terminal) Close() {
	if !t.begun {
		return
	}
	for _, end := range []func(){t.program.Quit, t.program.Kill} {
		go end()
		late := time.NewTimer(t.grace)
		select {
		case <-t.gone:
			late.Stop()
			return
		case <-late.C:
		}
	}
	_ = unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, t.was) // it may be gone
}

// Err returns the error that the screen ended with, after Close.
func (t *terminal) Err() error {
	if !t.begun {
		return nil
	}
	select {
	case <-t.gone:
	default:
		return errors.New("the terminal takes nothing: the screen was left as it was")
	}
	if t.err != nil && !errors.Is(t.err, tea.ErrProgramKilled) {
		return fmt.Errorf("showing the screen: %w", t.err)
	}
	return nil
}

// frames is how many frames a second are drawn at most: half of the time between two is
// what a key waits for its answer.
const frames = 120

// instead is what to use where there is no screen.
const instead = "use ustack futex --live --interval 1s"

// terminals returns the terminal that both streams are, if it can show a screen.
func terminals(stdin io.Reader, stdout io.Writer, getenv func(string) string) (in, out *os.File, err error) {
	in, inOK := stdin.(*os.File)
	out, outOK := stdout.(*os.File)
	switch term := getenv("TERM"); {
	case !inOK || !outOK || !render.IsTerminal(in) || !render.IsTerminal(out):
		return nil, nil, errors.New("standard input and output must be a terminal; elsewhere " + instead)
	case term == "" || term == "dumb":
		return nil, nil, fmt.Errorf("the terminal cannot move its cursor (TERM is %.40q); %s", term, instead)
	}
	return in, out, nil
}

// lookOf returns how a screen can be drawn (man 7 locale, https://no-color.org).
func lookOf(getenv func(string) string) Look {
	locale := ""
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale = strings.ToLower(getenv(name)); locale != "" {
			break
		}
	}
	utf8 := strings.HasSuffix(locale, "utf-8") || strings.HasSuffix(locale, "utf8")
	return Look{ASCII: !utf8, Color: getenv("NO_COLOR") == ""}
}
