package front

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fakeProc makes a proc with our process, its parent 7 and the command lines of others.
func fakeProc(t *testing.T, lines map[string]string) string {
	t.Helper()
	proc, own := t.TempDir(), strconv.Itoa(os.Getpid())
	lines[own] = "ustack\x00slow.rb\x00"
	for pid, line := range lines {
		parent := "1"
		if pid == own {
			parent = "7"
		}
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cmdline": line, "status": "Name:\tx\nPid:\t" + pid + "\nPPid:\t" + parent + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return proc
}

// TestUnknown says what to type.
func TestUnknown(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	if own == "12" || own == "110" || own == "7" {
		t.Skip("our PID is one of the test's")
	}
	proc := fakeProc(t, map[string]string{"7": "sudo\x00ustack\x00slow.rb\x00", "110": "ruby\x00-w\x00slow.rb\x00", "12": "ruby\x00/srv/slow.rb\x00", "13": "slow.rb\x00", "14": "", "15": "vi\x00slow.rb.old\x00"})
	check := func(flags []string) error {
		if line := strings.Join(flags, " "); line == "--duration 1" || line == "--owners=false" {
			return errors.New("wrong: " + line)
		}
		return nil
	}
	const lists = "; ustack help lists the commands"
	for line, want := range map[string]string{
		"fuetx":           `no command and no process "fuetx" (did you mean futex?)` + lists,
		"slow.rb":         `no command and no process "slow.rb", but processes 12, 110 run it: ustack 12` + lists,
		"-q slow.rb":      `no process "slow.rb", but processes 12, 110 run it: ustack 12`,
		"/srv/slow.rb":    `no command and no process "/srv/slow.rb", but process 12 runs it: ustack 12` + lists,
		"low.rb":          `no command and no process "low.rb"` + lists,
		"-q futex x":      `flags come after the command: ustack futex -q`,
		"--versoin":       `unknown flag "--versoin" (did you mean --version?)`,
		"--duration 1":    `wrong: --duration 1`,
		"--no-owners":     `wrong: --owners=false`,
		"-q":              `"-q" comes with a command, a PID, the name of a process or -- CMD` + lists,
		"--duration":      `"--duration" comes with a command, a PID, the name of a process or -- CMD` + lists,
		"\x1b[31m":        `no command and no process "\x1b[31m"` + lists,
		"--format \x1b -": `"--format" comes with a command, a PID, the name of a process or -- CMD` + lists,
	} {
		if got := Unknown(strings.Fields(line), []string{"futex", "replay"}, proc, check); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", line, got, want)
		}
	}
}

// TestUnknownFile: a file is no process, and the message says what to do with it.
func TestUnknownFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, mode := range map[string]os.FileMode{"shopd": 0o700, "trace.zst": 0o600, "a b": 0o600, "dir/x": 0o700} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"shopd":     ", but a program: ustack -- ./shopd",
		"./shopd":   ", but a program: ustack -- ./shopd",
		"dir/x":     ", but a program: ustack -- dir/x",
		"trace.zst": ", but a file: ustack open trace.zst",
		"a b":       "",
		"dir":       "",
		"gone":      "",
	} {
		want = fmt.Sprintf("no command and no process %q%s; ustack help lists the commands", name, want)
		if got := Unknown([]string{name}, []string{"futex"}, t.TempDir(), nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
