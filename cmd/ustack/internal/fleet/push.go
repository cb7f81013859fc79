package fleet

import (
	"errors"
	"flag"
	"io"
	"time"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/companion"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/resolve"
)

// Reports are files, each a report of one device, and how they are read.
type Reports struct {
	From    saved.Options
	Symbols symbols.Options
	Files   []string
	dialect string
	places  bool
}

// define defines the flags of how reports are read.
func (r *Reports) define(fs *flag.FlagSet) {
	fs.StringVar(&r.dialect, "dialect", "auto", "`DIALECT` of the stacks, see ustack replay --help")
	fs.BoolVar(&r.places, "lock-places", false, "find the static variables that locks are, in the files of this machine or of --sysroot")
	fs.StringVar(&r.From.Sysroot, "sysroot", "", "`DIR` with the ELF files at their paths")
	fs.Var((*command.List)(&r.Symbols.DebugDirs), "debug-dir", "look for ELF files in `DIR`, too; may be repeated")
	fs.BoolVar(&r.From.Quiet, "q", false, "no progress")
}

func (r *Reports) check() (err error) {
	r.Symbols.On, r.From.Symbols = r.places, r.places
	switch {
	case len(r.Files) == 0:
		return errors.New("at least one REPORT is needed")
	case !r.places && (r.From.Sysroot != "" || len(r.Symbols.DebugDirs) > 0):
		return errors.New("--sysroot and --debug-dir need --lock-places")
	}
	for _, name := range r.Files {
		if name == "-" {
			return errors.New("reports are files: standard input can be read once only")
		}
	}
	r.From.Dialect, err = resolve.ParseDialect(r.dialect)
	return err
}

// Push are the flags of push.
type Push struct {
	Reports
	To          *Address
	Credentials string // a file, "" for the environment
	// Retry is for how long a batch is sent again when the server does not take it.
	Retry time.Duration
}

// defaultRetry is longer than the restart of a server takes.
const defaultRetry = 10 * time.Minute

// ParsePush parses the arguments of push.
func ParsePush(args []string, stdout io.Writer) (*Push, error) {
	var f Push
	fs := command.NewFlags("push")
	f.define(fs)
	fs.StringVar(&f.Credentials, "credentials", "", "take USER:PASSWORD from `FILE`, and not from the environment")
	fs.DurationVar(&f.Retry, "retry", defaultRetry, "send again for at most `TIME` when the server does not answer")
	if err := command.ParseOperands(fs, args, help.Usage("push"), stdout); err != nil {
		return nil, err
	}
	rest := fs.Args()
	if len(rest) == 0 {
		return nil, errors.New("the address of a server is needed before the reports: ustack push clickhouse://HOST REPORT")
	}
	var err error
	if f.To, err = ParseTarget(rest[0]); err != nil {
		return nil, err
	}
	if f.Retry < 0 {
		return nil, errors.New("--retry takes a time of 0 or more")
	}
	f.Files = rest[1:]
	return &f, f.check()
}

// MainPush is the command push of ustack.
func MainPush(args []string, std command.Streams) error {
	if _, err := ParsePush(args, std.Out); err != nil {
		return command.UsageError(err)
	}
	return companion.Become(program, "push", args)
}
