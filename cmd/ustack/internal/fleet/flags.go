package fleet

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/companion"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/query"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/resolve"
)

// program is the program with the engine.
const program = "ustack-fleet"

// Export are the flags of export.
type Export struct {
	From    saved.Options
	Symbols symbols.Options
	Dir     string
	// Reports are files, each a report of one device.
	Reports []string
	format  string
	dialect string
	places  bool
}

// ParseExport parses the arguments of export.
func ParseExport(args []string, stdout io.Writer) (*Export, error) {
	var f Export
	fs := command.NewFlags("export")
	fs.StringVar(&f.format, "format", "parquet", "`FORMAT` of the tables: parquet")
	fs.StringVar(&f.Dir, "o", "", "add the tables to those in `DIR`")
	fs.StringVar(&f.dialect, "dialect", "auto", "`DIALECT` of the stacks, see ustack replay --help")
	fs.BoolVar(&f.places, "lock-places", false, "find the static variables that locks are, in the files of this machine or of --sysroot")
	fs.StringVar(&f.From.Sysroot, "sysroot", "", "`DIR` with the ELF files at their paths")
	fs.Var((*command.List)(&f.Symbols.DebugDirs), "debug-dir", "look for ELF files in `DIR`, too; may be repeated")
	fs.BoolVar(&f.From.Quiet, "q", false, "no progress")
	if err := command.Parse(fs, args, help.Usage("export"), stdout); err != nil {
		return nil, err
	}
	f.Reports = fs.Args()
	return &f, f.check()
}

func (f *Export) check() (err error) {
	f.Symbols.On, f.From.Symbols = f.places, f.places
	switch {
	case f.format != "parquet":
		return fmt.Errorf("unknown format %.40q of tables (one of parquet)", f.format)
	case f.Dir == "":
		return errors.New("a directory for the tables is needed: -o DIR")
	case len(f.Reports) == 0:
		return errors.New("at least one REPORT is needed")
	case !f.places && (f.From.Sysroot != "" || len(f.Symbols.DebugDirs) > 0):
		return errors.New("--sysroot and --debug-dir need --lock-places")
	}
	for _, name := range f.Reports {
		if name == "-" {
			return errors.New("reports are files: standard input can be read once only")
		}
	}
	f.From.Dialect, err = resolve.ParseDialect(f.dialect)
	return err
}

// Ask are the flags of fleet.
type Ask struct {
	Question Question
	Dir      string
	// Where A and B are what diff compares, "" else.
	A, B string
	// Top is how many rows the answer has at most.
	Top    int
	By     Order
	SQL    bool // print the question
	Format query.Format
	To     destination.Flags
}

// defaultTop is how many rows there are unless it is said.
const defaultTop = 20

// ParseAsk parses the arguments of fleet.
func ParseAsk(args []string, stdout io.Writer) (*Ask, error) {
	f := Ask{Format: query.FormatTable, By: ByTotal}
	fs := command.NewFlags("fleet")
	f.To.RegisterFile(fs)
	fs.Func("format", "`FORMAT` of the answer: table, csv or json (a line for each row; default table)", func(name string) error { return f.Format.Set(name) })
	fs.IntVar(&f.Top, "top", defaultTop, "at most `N` rows")
	fs.Func("by", "`ORDER` of locks: total, devices, p99 or waits (default total)", f.By.set)
	fs.StringVar(&f.A, "a", "", "for diff: compare devices of the operating system `OS` ...")
	fs.StringVar(&f.B, "b", "", "for diff: ... with devices of this `OS`, in which it is new")
	fs.BoolVar(&f.SQL, "sql", false, "print the question as SQL for DuckDB, and do not answer it")
	if err := parseMixed(fs, args, stdout, &f); err != nil {
		return nil, err
	}
	return &f, f.check()
}

// parseMixed parses flags before and after the question, which is the first argument.
func parseMixed(fs *flag.FlagSet, args []string, stdout io.Writer, f *Ask) error {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		f.Question = Question(args[0])
		args = args[1:]
	}
	if err := command.Parse(fs, args, help.Usage("fleet"), stdout); err != nil {
		return err
	}
	rest := fs.Args()
	if f.Question == "" && len(rest) > 0 {
		f.Question, rest = Question(rest[0]), rest[1:]
	}
	if len(rest) != 1 {
		return errors.New("a question and a DIR are needed: ustack fleet top DIR; questions are top, devices and diff")
	}
	f.Dir = rest[0]
	return nil
}

func (f *Ask) check() error {
	switch {
	case !f.Question.known():
		return fmt.Errorf("unknown question %.40q (one of top, devices, diff)", f.Question)
	case f.Question == Diff && (f.A == "" || f.B == ""):
		return errors.New("diff compares two operating systems: --a OS --b OS; ustack fleet devices DIR lists them")
	case f.Question == Diff && f.A == f.B:
		return errors.New("--a and --b are the same operating system")
	case f.Question != Diff && f.A+f.B != "":
		return errors.New("--a and --b are for diff")
	case f.Top <= 0:
		return errors.New("--top takes a number above 0")
	}
	return nil
}

// MainExport is the command export of ustack: the flags are checked, all else is done by
// ustack-fleet.
func MainExport(args []string, std command.Streams) error {
	if _, err := ParseExport(args, std.Out); err != nil {
		return command.UsageError(err)
	}
	return companion.Become(program, "export", args)
}

// MainAsk is the command fleet of ustack.
func MainAsk(args []string, std command.Streams) error {
	if _, err := ParseAsk(args, std.Out); err != nil {
		return command.UsageError(err)
	}
	return companion.Become(program, "fleet", args)
}
