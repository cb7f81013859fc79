package destination

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// RegisterOpen defines the flag of what can be a page for a browser. format is the value of
// --format.
func (f *Flags) RegisterOpen(fs *flag.FlagSet, format *string) {
	fs.BoolFunc("open", "show the report in a browser: --format=html, in the file of -o or a temporary one, by $BROWSER or xdg-open", func(string) error {
		f.browse, *format = true, "html"
		return nil
	})
}

// ErrNoBrowser: there is no program that shows a page.
var ErrNoBrowser = errors.New("no browser was found here (neither $BROWSER nor xdg-open): copy the page to where there is one")

// page is a file that a browser shows once it is whole.
type page struct {
	io.WriteCloser
	name string
}

// openPage opens the file of a page: the one that the user has named, or a temporary one,
// which stays.
func (f *Flags) openPage() (io.WriteCloser, error) {
	if f.path != "" {
		to, err := create(f.path)
		return &page{to, f.path}, err
	}
	to, err := os.CreateTemp("", "ustack-*.html")
	if err != nil {
		return nil, fmt.Errorf("creating the output: %w", err)
	}
	return &page{&file{to: to, name: to.Name()}, to.Name()}, nil
}

// Close implements io.Closer. It shows the page.
func (p *page) Close() error {
	if err := p.WriteCloser.Close(); err != nil {
		return err
	}
	if _, err := os.Stat(p.name); err != nil {
		return nil // nothing was written, for a reason that is reported
	}
	if err := browse(p.name); err != nil {
		return fmt.Errorf("showing %s: %w", p.name, err)
	}
	return nil
}

// browse shows a file. $BROWSER is a list of commands, of which the first one is taken, with
// %s for the file or the file after it.
func browse(name string) error {
	line, _, _ := strings.Cut(os.Getenv("BROWSER"), ":")
	args := strings.Fields(line)
	if len(args) == 0 {
		args = []string{"xdg-open"}
	}
	if strings.Contains(line, "%s") {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "%s", name)
		}
	} else {
		args = append(args, name)
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return ErrNoBrowser
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	return cmd.Run()
}
