package destination

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

// pager is a command that shows a text by the page.
type pager struct {
	args   []string
	colors bool // it shows them
}

// Values of --pager that are no command.
const (
	auto  = "auto"
	never = "never"
)

// findPager returns the pager: a shell command line, by "auto" that of $PAGER (man 1
// man, "PAGER"), else less, else none. less ends at once if all fits on the screen (-F),
// shows colors (-R), and leaves the text there (-X).
func findPager(line string) *pager {
	if line == auto {
		line = os.Getenv("PAGER")
	}
	switch line = strings.TrimSpace(line); line {
	case never, "cat":
		return nil
	case "":
		if less, err := exec.LookPath("less"); err == nil {
			return &pager{args: []string{less, "-FRX"}, colors: true}
		}
		return nil
	}
	return &pager{args: []string{"sh", "-c", line}, colors: strings.HasPrefix(line, "less")}
}

// Exit codes of sh(1) for a command that it cannot run.
const (
	shellNotExecutable = 126
	shellNotFound      = 127
)

// show reports whether the pager has run. Ctrl-C is for the pager: it comes to both, and
// a ustack that ends would leave the pager without its terminal.
func (p *pager) show(text []byte, tty *os.File) bool {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), tty, os.Stderr
	if _, set := os.LookupEnv("LESS"); !set {
		cmd.Env = append(os.Environ(), "LESS=FRX")
	}
	if err := cmd.Start(); err != nil {
		return false
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode() != shellNotFound && exit.ExitCode() != shellNotExecutable
	}
	return true // an error of writing to it: its user has seen enough
}
