package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
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
	err := fs.Parse(args)
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

// List is the value of a flag that may be given several times.
type List []string

// String implements flag.Value.
func (l *List) String() string { return strings.Join(*l, " ") }

// Set implements flag.Value.
func (l *List) Set(s string) error {
	*l = append(*l, s)
	return nil
}
