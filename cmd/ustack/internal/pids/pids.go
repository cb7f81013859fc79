// Package pids finds the processes that a user names on the command line.
package pids

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"ustack/filemap/procmap"
)

// byName begins a regular expression for names in place of a PID.
const byName = "name:"

// maxName bounds a regular expression.
const maxName = 1000

// Parse returns the processes that the operands of -p name. Each is a list with commas
// of PIDs, as ps and perf take them, or name:REGEX, which is every process that has now a
// name, or runs a file of a name, in which the regular expression is found. It fails for a
// name that no process has; whether the PIDs exist is not checked. proc is where proc is
// mounted.
func Parse(proc string, operands []string) ([]int, error) {
	var all []int
	for _, operand := range operands {
		if name, ok := strings.CutPrefix(operand, byName); ok {
			found, err := matching(proc, name)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		for word := range strings.SplitSeq(operand, ",") {
			pid, err := strconv.Atoi(word)
			if err != nil || pid <= 0 {
				return nil, fmt.Errorf("-p takes process IDs or name:REGEX, not %.80q%s", word, meant(proc, word))
			}
			all = append(all, pid)
		}
	}
	return all, nil
}

// meant returns what to type for the processes that have a word as their name, "" if there are
// none.
func meant(proc, word string) string {
	if !Exists(proc, word) {
		return ""
	}
	return "; did you mean -p " + byName + regexp.QuoteMeta(word) + "?"
}

// matching returns the processes with a name in which an expression is found.
func matching(proc, expression string) ([]int, error) {
	if len(expression) > maxName {
		return nil, fmt.Errorf("-p name:REGEX of over %d bytes", maxName)
	}
	re, err := regexp.Compile(expression)
	if err != nil || expression == "" {
		return nil, fmt.Errorf("-p name:REGEX needs a regular expression, not %q", expression)
	}
	found, err := named(proc, re.MatchString)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no process has a name in which %q is found", expression)
	}
	return found, err
}

// Exact returns the operand of -p for all processes of just this name.
func Exact(name string) string { return byName + "^" + regexp.QuoteMeta(name) + "$" }

// Exists reports whether a process has just this name now. The kernel's names are cut
// after 15 bytes; the name of the file that it runs is not.
func Exists(proc, name string) bool {
	found, err := named(proc, func(other string) bool { return other == name })
	return err == nil && len(found) > 0
}

func named(proc string, match func(string) bool) ([]int, error) {
	r, err := procmap.NewReader(procmap.Options{Proc: proc})
	if err != nil {
		return nil, fmt.Errorf("looking for processes by name: %w", err)
	}
	found, err := r.Named(match)
	if err != nil {
		return nil, fmt.Errorf("looking for processes by name: %w", err)
	}
	return found, nil
}
