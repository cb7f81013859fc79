package destination

import (
	"errors"
	"io"
	"os"

	"ustack/cmd/ustack/internal/command"
	"ustack/render"
)

// ErrMixed: what a command prints would be in the middle of ours.
var ErrMixed = errors.New("standard output and standard error are the same file, where what the command prints would be in the middle of this format: name a file with -o FILE")

// ForCommand returns the standard streams of the command that runs meanwhile (-- CMD), if
// there is one. What it prints never gets into what is written for others to read: if that goes to standard output,
// and this is not a terminal, the command's goes to standard error, as that of perf record
// -o - does. It is ErrMixed if that is the same file and what is written is not text.
func (f *Flags) ForCommand(cmd []string, std command.Streams, text bool) (command.Streams, error) {
	if f.browse && f.path == "" {
		return std, nil // the page is in a file of its own
	}
	return ForCommand(cmd, f.path, std, text)
}

// ForCommand is Flags.ForCommand for a report whose file is called name, "" for standard
// output.
func ForCommand(cmd []string, name string, std command.Streams, text bool) (command.Streams, error) {
	if messages, ok := std.Err.(*os.File); ok && len(cmd) > 0 && name != "" && !text && same(messages, name) {
		return std, ErrMixed
	}
	out, isFile := std.Out.(*os.File)
	if len(cmd) == 0 || name != "" && !(isFile && same(out, name)) || isFile && render.IsTerminal(out) {
		return std, nil
	}
	if !text && isFile && oneFile(out, std.Err) {
		return std, ErrMixed
	}
	std.Out = std.Err
	return std, nil
}

// same reports whether a name leads to a file that is open: /dev/stdout does.
func same(f *os.File, name string) bool {
	is, err := f.Stat()
	named, nerr := os.Stat(name)
	return err == nil && nerr == nil && os.SameFile(is, named)
}

// oneFile reports whether two streams are the same file or pipe. Devices such as /dev/null
// are no matter.
func oneFile(out *os.File, stderr io.Writer) bool {
	messages, ok := stderr.(*os.File)
	if !ok {
		return false
	}
	a, err := out.Stat()
	b, berr := messages.Stat()
	return err == nil && berr == nil && a.Mode()&os.ModeDevice == 0 && os.SameFile(a, b)
}
