// Package destination sends a report to where its user wants it: a file, a pipe, or a
// terminal, there in color, and through a pager if it is longer than the screen.
package destination

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"ustack/cmd/ustack/internal/command"
	"ustack/render"
)

// Flags say where a report goes.
type Flags struct {
	path  string
	color string
	pager string
	// browse is set if a browser shows the report.
	browse bool
}

// RegisterFile defines the flag of what is a stream.
func (f *Flags) RegisterFile(fs *flag.FlagSet) {
	fs.StringVar(&f.path, "o", "", "write to `FILE` instead of standard output")
}

// Register defines the flags of a report.
func (f *Flags) Register(fs *flag.FlagSet) {
	f.RegisterFile(fs)
	f.color, f.pager = auto, auto
	fs.Func("color", "`WHEN` text has colors: always, never or auto (default auto: on a terminal, but for $NO_COLOR)", f.setColor)
	fs.Func("pager", "`COMMAND` that shows text that is longer than the terminal, never for none (default $PAGER, else less)", func(line string) error {
		f.pager = line
		return nil
	})
}

// setColor understands --color.
func (f *Flags) setColor(when string) error {
	switch f.color = when; when {
	case auto, never, always:
		return nil
	}
	return fmt.Errorf("it is %s, %s or %s", auto, always, never)
}

// always is a value of --color.
const always = "always"

// ToFile reports whether the report goes to a file that the user has named.
func (f *Flags) ToFile() bool { return f.path != "" || f.browse }

// Stream opens the destination of what is written as it comes, has it written, and closes
// it. Standard output is passed as it is: it may be a terminal (render.Output).
func (f *Flags) Stream(stdout io.Writer, write func(io.Writer) error) error {
	if f.path == "" {
		return write(stdout)
	}
	return f.Send(stdout, false, write)
}

// Open opens the destination, which is standard output if no file is named. text is set
// if what is written is text for people. Close sends what has been written.
func (f *Flags) Open(stdout io.Writer, text bool) (io.WriteCloser, error) {
	if f.browse {
		return f.openPage()
	}
	if f.path != "" {
		return create(f.path)
	}
	tty, ok := stdout.(*os.File)
	switch onTerminal := ok && render.IsTerminal(tty); {
	case onTerminal:
		return newTerminal(tty, f.colored(text), f.pages(text)), nil
	case text && f.color == always:
		return newTerminal(stdout, true, nil), nil
	}
	return open{stdout}, nil
}

// Raw opens the destination of what is written as it comes. Standard output is passed as it
// is: it may be a terminal (render.Output).
func (f *Flags) Raw(stdout io.Writer) (io.WriteCloser, error) {
	if f.path == "" {
		return open{stdout}, nil
	}
	return create(f.path)
}

// Send opens the destination, has the report written there, and closes it.
func (f *Flags) Send(stdout io.Writer, text bool, report func(io.Writer) error) error {
	to, err := f.Open(stdout, text)
	if err != nil {
		return err
	}
	err = report(to)
	if cerr := to.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("writing the output: %w", cerr))
	}
	return err
}

// Streams is Send for a command that gets all its streams.
func (f *Flags) Streams(std command.Streams, text bool, report func(command.Streams) error) error {
	return f.Send(std.Out, text, func(out io.Writer) error {
		std.Out = out
		return report(std)
	})
}

// colored reports whether text on a terminal has colors (https://no-color.org).
func (f *Flags) colored(text bool) bool {
	return text && f.color != never && (f.color == always || os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// pages returns the pager, nil for none.
func (f *Flags) pages(text bool) *pager {
	if !text {
		return nil
	}
	return findPager(f.pager)
}

// open is a writer that is not ours to close.
type open struct{ io.Writer }

// Close implements io.Closer.
func (open) Close() error { return nil }

// Page prints a text, on a terminal by the user's pager.
func Page(text string, stdout io.Writer) error {
	f := Flags{pager: auto, color: never}
	return f.Send(stdout, true, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
