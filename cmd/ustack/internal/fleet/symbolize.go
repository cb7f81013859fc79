package fleet

import (
	"errors"
	"io"
	"time"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/companion"
	"ustack/cmd/ustack/internal/symbols"
)

// Symbolize are the flags of symbolize.
type Symbolize struct {
	Dir         string        // with tables, "" for a server
	Server      *Address      // nil for a directory
	Credentials string        // a file, "" for the environment
	Retry       time.Duration // as in Push
	Sysroot     string
	Symbols     symbols.Options
	Quiet       bool
}

// ParseSymbolize parses the arguments of symbolize.
func ParseSymbolize(args []string, stdout io.Writer) (*Symbolize, error) {
	f := Symbolize{Symbols: symbols.Options{On: true, NoInfer: true}}
	fs := command.NewFlags("symbolize")
	fs.StringVar(&f.Sysroot, "sysroot", "", "`DIR` with the ELF files at their paths, and not on this machine")
	fs.Var((*command.List)(&f.Symbols.DebugDirs), "debug-dir", "look for ELF files and debug information in `DIR`, too; may be repeated")
	fs.BoolVar(&f.Symbols.Debuginfod, "debuginfod", false, "fetch missing files from the servers in DEBUGINFOD_URLS")
	fs.StringVar(&f.Credentials, "credentials", "", "take USER:PASSWORD of the server from `FILE`, and not from the environment")
	fs.DurationVar(&f.Retry, "retry", defaultRetry, "send again for at most `TIME` when the server does not answer")
	fs.BoolVar(&f.Quiet, "q", false, "no progress")
	if err := command.ParseOperands(fs, args, help.Usage("symbolize"), stdout); err != nil {
		return nil, err
	}
	if fs.NArg() != 1 {
		return nil, errors.New("a DIR or the address of a server is needed: ustack symbolize DIR")
	}
	var err error
	if f.Dir = fs.Arg(0); IsAddress(f.Dir) {
		f.Server, err = ParseAddress(f.Dir)
		f.Dir = ""
	}
	switch {
	case err != nil:
		return nil, err
	case f.Credentials != "" && f.Server == nil:
		return nil, errors.New("--credentials is for a server")
	case f.Retry < 0:
		return nil, errors.New("--retry takes a time of 0 or more")
	}
	return &f, nil
}

// MainSymbolize is the command symbolize of ustack.
func MainSymbolize(args []string, std command.Streams) error {
	if _, err := ParseSymbolize(args, std.Out); err != nil {
		return command.UsageError(err)
	}
	return companion.Become(program, "symbolize", args)
}
