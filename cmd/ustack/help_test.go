package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ustack/cmd/ustack/help"
)

// helpOutput runs ustack in this process.
func helpOutput(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, nil, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("ustack %q: exit code %d: %s", args, code, stderr.Bytes())
	}
	return stdout.String()
}

// TestHelpReaches: "ustack help" lists each command and each topic, and shows all
// of them by their names.
func TestHelpReaches(t *testing.T) {
	list := helpOutput(t, "help")
	for _, c := range commands() {
		if !strings.Contains(list, "\n  "+c.name+" ") {
			t.Errorf("help does not list the command %s", c.name)
		}
		text := helpOutput(t, "help", c.name)
		topic, ok := help.Find(c.name)
		if !ok {
			topic.Text = helpOutput(t, c.name, "--help")
		}
		if text != topic.Text {
			t.Errorf("help %s prints\n%s", c.name, text)
		}
	}
	for _, topic := range help.Topics() {
		if !strings.Contains(list, "\n  "+topic.Name+" ") {
			t.Errorf("help does not list the topic %s", topic.Name)
		}
		if text := helpOutput(t, "help", topic.Name); text != topic.Text {
			t.Errorf("help %s prints\n%s", topic.Name, text)
		}
	}
}

// TestHelpPager: on a terminal a topic goes through $PAGER; one that does not exist
// costs nothing.
func TestHelpPager(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("a pager is run by sh")
	}
	topic, _ := help.Find("glossary")
	first, _, _ := strings.Cut(topic.Text, "\n")
	for pager, want := range map[string]string{
		"read -r line; echo paged $line": "paged " + first + "\r\n",
		"exec /nonexistent 2>/dev/null":  strings.ReplaceAll(topic.Text, "\n", "\r\n"),
	} {
		person, tty := terminal(t)
		cmd := exec.Command(ustackBinary(t), "help", "glossary")
		cmd.Env = append(os.Environ(), "PAGER="+pager)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tty.Close()
		seen, _ := io.ReadAll(person) // EIO when all who had the terminal have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("PAGER=%q: %v", pager, err)
		}
		if string(seen) != want {
			t.Errorf("PAGER=%q: the terminal shows\n%s\nwant\n%s", pager, seen, want)
		}
	}
}
