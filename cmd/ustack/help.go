package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/nearest"
	"ustack/render"
)

// helpCommand prints the list of commands and topics, a topic, or the flags of a
// command that has no topic of its name.
func helpCommand(args []string, std command.Streams) error {
	if len(args) == 0 {
		usage(std.Out)
		return nil
	}
	if len(args) > 1 {
		return command.UsageError(errors.New("one topic at a time"))
	}
	if topic, ok := help.Find(args[0]); ok {
		return page(topic.Text, std.Out)
	}
	var names []string
	for _, t := range help.Topics() {
		names = append(names, t.Name)
	}
	for _, c := range commands() {
		if c.Name == args[0] {
			return c.Run([]string{"--help"}, std)
		}
		names = append(names, c.Name)
	}
	text := fmt.Sprintf("unknown topic %.80q", args[0])
	if name, ok := nearest.Name(args[0], names); ok {
		text += ", the nearest is " + name
	}
	return command.UsageError(errors.New(text + "; ustack help lists all"))
}

// page prints a text, on a terminal by the user's pager.
func page(text string, stdout io.Writer) error {
	if f, ok := stdout.(*os.File); ok && render.IsTerminal(f) {
		if cmd := pager(); cmd != nil && runPager(cmd, text, f) {
			return nil
		}
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return fmt.Errorf("printing the topic: %w", err)
	}
	return nil
}

// pager returns the command that shows a text by the page: $PAGER as a shell
// command line (man 1 man, "PAGER"), else less, else none. less ends at once if all
// fits on the screen (-F), and leaves the text there (-X).
func pager() *exec.Cmd {
	if line := os.Getenv("PAGER"); strings.TrimSpace(line) != "" {
		return exec.Command("sh", "-c", line)
	}
	if less, err := exec.LookPath("less"); err == nil {
		return exec.Command(less, "-FRX")
	}
	return nil
}

// Exit codes of sh(1) for a command that it cannot run.
const (
	shellNotExecutable = 126
	shellNotFound      = 127
)

// runPager reports whether the pager has run. Ctrl-C is for the pager: it comes to
// both, and a ustack that ends would leave the pager without its terminal.
func runPager(cmd *exec.Cmd, text string, tty *os.File) bool {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), tty, os.Stderr
	if err := cmd.Start(); err != nil {
		return false
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode() != shellNotFound && exit.ExitCode() != shellNotExecutable
	}
	return true // an error of writing to it: its user has seen enough
}
