package front

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ustack/tracefs/nearest"
	"ustack/tracefs/sorting"
)

// Unknown says what to type instead of arguments that are no command and no short form.
// commands are the names of all commands, and check returns what is wrong with flags of
// Command.
func Unknown(args, commands []string, proc string, check func(flags []string) error) string {
	at, _ := operand(args)
	switch {
	case at == len(args) && strings.HasPrefix(args[0], "-"):
		if hint := nearest.Meant(args[0], []string{"--help", "--version"}); hint != "" {
			return fmt.Sprintf("unknown flag %.80q%s", args[0], hint)
		}
		if err := check(off(args)); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%.80q comes with a command, a PID, the name of a process or -- CMD; ustack help lists the commands", args[0])
	case at > 0 && slices.Contains(commands, args[at]):
		return fmt.Sprintf("flags come after the command: ustack %s %s", args[at], strings.Join(args[:at], " "))
	case at > 0:
		return fmt.Sprintf("no process %.80q%s", args[at], run(args[at], proc))
	}
	if hint := nearest.Meant(args[0], commands); hint != "" {
		return fmt.Sprintf("no command and no process %.80q%s; ustack help lists the commands", args[0], hint)
	}
	more := run(args[0], proc)
	if more == "" {
		more = file(args[0])
	}
	return fmt.Sprintf("no command and no process %.80q%s; ustack help lists the commands", args[0], more)
}

// file returns what to type for a file: a program is started by its path, all else is read.
// It is empty for other names.
func file(name string) string {
	if strings.Trim(name, plain) != "" {
		return "" // a shell would take it for something else
	}
	info, err := os.Stat(name)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return ""
	case info.Mode()&0o111 == 0:
		return fmt.Sprintf(", but a file: ustack open %s", name)
	case strings.Contains(name, "/"):
		return fmt.Sprintf(", but a program: ustack -- %s", name)
	}
	return fmt.Sprintf(", but a program: ustack -- ./%s", name)
}

// plain are the characters of names that mean the same to a shell.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-"

// maxScripts is how many processes run lists.
const maxScripts = 3

// run returns which processes have a word among their arguments, as the interpreter of a
// script has: what to trace them by. It is empty if there is none.
func run(word, proc string) string {
	entries, _ := os.ReadDir(proc) // without proc there is none
	var found []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && given(filepath.Join(proc, e.Name()), word) {
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		return ""
	}
	sorting.Func(found, func(a, b int) int { return a - b })
	var list []string
	for _, pid := range found[:min(len(found), maxScripts)] {
		list = append(list, strconv.Itoa(pid))
	}
	switch more := len(found) - len(list); {
	case more > 0:
		return fmt.Sprintf(", but processes %s and %d more run it: ustack %s", strings.Join(list, ", "), more, list[0])
	case len(list) > 1:
		return fmt.Sprintf(", but processes %s run it: ustack %s", strings.Join(list, ", "), list[0])
	}
	return fmt.Sprintf(", but process %s runs it: ustack %[1]s", list[0])
}

// given reports whether the program of a process has a word among its arguments: the word
// itself, or a path that ends with it. A shell or sudo that has started us has it, too, but
// that is an ancestor of ours.
func given(dir, word string) bool {
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || word == "" || ancestor(filepath.Dir(dir), filepath.Base(dir)) {
		return false
	}
	args := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
	return slices.ContainsFunc(args[1:], func(arg string) bool { return arg == word || strings.HasSuffix(arg, "/"+word) })
}

// ancestor reports whether a process is this one, or has started it.
func ancestor(proc, pid string) bool {
	own := strconv.Itoa(os.Getpid())
	for range 100 { // processes have no more generations than this, or they are not ours
		if own == pid {
			return true
		}
		status, err := os.ReadFile(filepath.Join(proc, own, "status"))
		if err != nil {
			return false
		}
		_, rest, found := strings.Cut(string(status), "\nPPid:\t")
		own, _, _ = strings.Cut(rest, "\n")
		if !found || own == "0" {
			return false
		}
	}
	return false
}
