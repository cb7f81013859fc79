package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// NewFlags returns an empty set of flags of a command. It returns an error for
// wrong arguments, and prints nothing.
func NewFlags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// Parse parses arguments. If they ask for help, help and the flags are printed and the
// error is flag.ErrHelp.
func Parse(fs *flag.FlagSet, args []string, help string, stdout io.Writer) error {
	return explained(fs, fs.Parse(args), help, stdout)
}

// ParseOperands is Parse for arguments in which flags may also stand after operands, such as
// FILE -q. What follows "--" is operands.
func ParseOperands(fs *flag.FlagSet, args []string, help string, stdout io.Writer) error {
	return explained(fs, parseOperands(fs, args), help, stdout)
}

func parseOperands(fs *flag.FlagSet, args []string) error {
	var operands []string
	for len(args) > 0 {
		if err := fs.Parse(args); err != nil {
			return err
		}
		rest := fs.Args()
		next := slices.IndexFunc(rest, func(arg string) bool { return len(arg) > 1 && arg[0] == '-' })
		if at := len(args) - len(rest); next < 0 || at > 0 && args[at-1] == "--" {
			next = len(rest)
		}
		operands, args = append(operands, rest[:next]...), rest[next:]
	}
	return fs.Parse(append([]string{"--"}, operands...))
}

// explained returns an error of parsing in words that say what to type. If it is of arguments
// that ask for help, help and the flags are printed.
func explained(fs *flag.FlagSet, err error, help string, stdout io.Writer) error {
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, help)
		printFlags(stdout, fs)
	}
	return readable(fs, err)
}

// ParseOnly parses arguments that are flags and nothing else.
func ParseOnly(fs *flag.FlagSet, args []string, help string, stdout io.Writer) error {
	if err := Parse(fs, args, help, stdout); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return nil
}

// Unset defines a flag that makes true false, which is its value else.
func Unset(fs *flag.FlagSet, to *bool, name, usage string) {
	*to = true
	fs.BoolFunc(name, usage, func(text string) error {
		unset, err := strconv.ParseBool(text)
		*to = !unset
		return err
	})
}

// JSON defines --json, which is --format=json: of both, the last one counts, as of a flag that is
// given twice.
func JSON(fs *flag.FlagSet) {
	fs.BoolFunc("json", "the same as --format=json", func(text string) error {
		on, err := strconv.ParseBool(text)
		if err != nil || !on {
			return err
		}
		return fs.Set("format", "json")
	})
}

// List is the value of a flag that may be given several times.
type List []string

// String implements flag.Value.
func (l *List) String() string { return strings.Join(*l, " ") }

// Set implements flag.Value.
func (l *List) Set(s string) error {
	*l = append(*l, s)
	return nil
}
