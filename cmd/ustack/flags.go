package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// newFlags returns an empty set of flags of a command. It returns an error for
// wrong arguments, and prints nothing.
func newFlags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// parseFlags parses arguments. If they ask for help, it is printed and the error
// is flag.ErrHelp.
func parseFlags(fs *flag.FlagSet, args []string, help string, stdout io.Writer) error {
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, help)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
	}
	return err
}
