package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ustack/tracefs/nearest"
)

// What package flag says of arguments that it does not take (FlagSet.failf in
// src/flag/flag.go). TestParse holds these forms to it.
var (
	undefined    = regexp.MustCompile(`^flag provided but not defined: -(.*)$`)
	invalid      = regexp.MustCompile(`(?s)^invalid (?:boolean )?value "(.*)" for (?:flag )?-([^:]*): (.*)$`)
	needsOperand = regexp.MustCompile(`^flag needs an argument: -(.*)$`)
)

// readable returns an error of FlagSet.Parse in words that say what to type.
func readable(fs *flag.FlagSet, err error) error {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := err.Error()
	if m := undefined.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("unknown flag %s%s", printable(Dashed(m[1])), meantFlag(fs, m[1]))
	}
	if m := needsOperand.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s needs a value", Dashed(m[1]))
	}
	if m := invalid.FindStringSubmatch(text); m != nil {
		return wrongValue(fs.Lookup(m[2]), Dashed(m[2]), m[1], m[3])
	}
	return err
}

// spelledOut are the names that other programs give to flags of one letter here. A command that
// has no --format may have one of its values.
var spelledOut = map[string]string{
	"buffer-size": "b", "event": "e", "events": "e", "format": "json", "out": "o", "output": "o", "pid": "p", "pids": "p", "process": "p", "quiet": "q", "verbose": "v",
}

// meantFlag returns the end of a message about a flag that does not exist.
func meantFlag(fs *flag.FlagSet, name string) string {
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	meant, ok := spelledOut[name], true
	if meant == "" || fs.Lookup(meant) == nil {
		meant, ok = nearest.Slip(name, names)
	}
	if !ok {
		return ""
	}
	return " (did you mean " + Dashed(meant) + "?)"
}

// wrongValue describes a value that a flag does not take.
func wrongValue(f *flag.Flag, name, value, why string) error {
	if unquoted, err := strconv.Unquote(`"` + value + `"`); err == nil {
		value = unquoted
	}
	switch kind(f).(type) {
	case time.Duration:
		meant := ""
		if _, err := strconv.ParseFloat(value, 64); err == nil {
			meant = fmt.Sprintf(" (did you mean %ss?)", value)
		}
		return fmt.Errorf("%s takes a time such as 10s or 500ms, not %.80q%s", name, value, meant)
	case int, int64, uint, uint64:
		return fmt.Errorf("%s takes a whole number, not %.80q", name, value)
	case float64:
		return fmt.Errorf("%s takes a number, not %.80q", name, value)
	case bool:
		return fmt.Errorf("%s takes true, false or nothing, not %.80q", name, value)
	}
	return fmt.Errorf("%s %.80q: %s", name, value, why)
}

// kind returns a value of the type that a flag has, nil if that is not known.
func kind(f *flag.Flag) any {
	if f == nil {
		return nil
	}
	if g, ok := f.Value.(flag.Getter); ok {
		return g.Get()
	}
	return nil
}

// printable returns a word as it is if it may stand in a message, else quoted.
func printable(word string) string {
	if quoted := strconv.Quote(word); quoted != `"`+word+`"` {
		return quoted
	}
	return word
}

// Dashed returns the name of a flag as people type it: one dash before one letter.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// printFlags prints the flags as FlagSet.PrintDefaults does, in the form that people
// type them in.
func printFlags(w io.Writer, fs *flag.FlagSet) {
	fs.VisitAll(func(f *flag.Flag) {
		operand, usage := flag.UnquoteUsage(f)
		head := Dashed(f.Name)
		if operand != "" {
			head += " " + operand
		}
		separator := "\n    \t"
		if len(head) == len("-x") {
			separator = "\t"
		}
		if initial := initialValue(f); initial != "" {
			usage += " (default " + initial + ")"
		}
		fmt.Fprintf(w, "  %s%s%s\n", head, separator, strings.ReplaceAll(usage, "\n", "\n    \t"))
	})
}

// initialValue returns what a flag is if it is not given, "" if that is nothing.
func initialValue(f *flag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false":
		return ""
	}
	if _, ok := kind(f).(string); ok {
		return strconv.Quote(f.DefValue)
	}
	return f.DefValue
}
