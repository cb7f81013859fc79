// Package query has what the programs ustack and ustack-query share about queries of a
// trace's tables: flags, the form of the answer, and how the one runs the other.
//
// The database is in ustack-query, a module of its own in cmd/ustack/ustack-query: it costs
// more to compile than all else, and what needs no query does not pay for it.
package query

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/cmd/ustack/internal/tables"
	"ustack/filemap/resolve"
)

// Flags are the flags of query and mcp.
type Flags struct {
	From    saved.Options
	Symbols symbols.Options
	// Timeout is how long a query may run.
	Timeout time.Duration
	// SQL is the query, of the command query.
	SQL string
	// Schema has the tables printed, and nothing asked.
	Schema bool
	Format Format
	To     destination.Flags

	dialect   string
	noSymbols bool
}

// defaultTimeout is far above what a query of a trace takes.
const defaultTimeout = 30 * time.Second

// define adds the flags that both commands have.
func (f *Flags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.dialect, "dialect", "auto", "`DIALECT` of the stacks, see ustack replay --help")
	fs.StringVar(&f.From.Maps, "maps", "", "check file mapping events against the mappings in `DUMP`, as for replay")
	fs.StringVar(&f.From.Sysroot, "sysroot", "", "`DIR` with the ELF files at their paths")
	fs.StringVar(&f.From.PerfMap, "perf-map", "", "name JIT code by perf-PID.map in `DIR`")
	fs.Var((*command.List)(&f.Symbols.DebugDirs), "debug-dir", "look for debug information in `DIR`, too; may be repeated")
	fs.BoolVar(&f.noSymbols, "no-symbols", false, "do not name functions")
	fs.DurationVar(&f.Timeout, "timeout", defaultTimeout, "end a query that runs for longer than this `TIME`")
	fs.BoolVar(&f.From.Quiet, "q", false, "no progress")
}

// Parse parses the arguments of query.
func Parse(args []string, stdout io.Writer) (*Flags, error) {
	f := Flags{Format: FormatTable}
	fs := command.NewFlags("query")
	f.define(fs)
	f.To.RegisterFile(fs)
	fs.Func("format", "`FORMAT` of the answer: table, csv or json (a line for each row; default table)", func(name string) error { return f.Format.Set(name) })
	command.JSON(fs)
	fs.BoolVar(&f.Schema, "schema", false, "print the tables with their columns, as SQL")
	if err := command.ParseOperands(fs, args, help.Usage("query"), stdout); err != nil {
		return nil, err
	}
	if f.Schema {
		if fs.NArg() > 0 {
			return nil, fmt.Errorf("--schema is the same for all traces: unexpected argument %.80q", fs.Arg(0))
		}
		return &f, nil
	}
	if fs.NArg() != 2 {
		return nil, errors.New("a query and a FILE are needed: ustack query 'SELECT * FROM trace' FILE; --schema has the tables")
	}
	f.SQL = fs.Arg(0)
	return &f, errors.Join(f.complete(fs.Arg(1)), CheckSQL(f.SQL))
}

// ParseServer parses the arguments of mcp.
func ParseServer(args []string, stdout io.Writer) (*Flags, error) {
	var f Flags
	fs := command.NewFlags("mcp")
	f.define(fs)
	if err := command.ParseOperands(fs, args, help.Usage("mcp"), stdout); err != nil {
		return nil, err
	}
	if fs.NArg() != 1 || fs.Arg(0) == "-" {
		return nil, errors.New("one FILE is needed: standard input is the client's")
	}
	return &f, f.complete(fs.Arg(0))
}

// complete checks the flags and takes the name of the file.
func (f *Flags) complete(file string) error {
	f.From.Files = []string{file}
	f.Symbols.On, f.From.Symbols = !f.noSymbols, !f.noSymbols
	var early error
	if f.Timeout <= 0 {
		early = errors.Join(early, errors.New("--timeout takes a time above 0"))
	}
	if f.noSymbols {
		f.Symbols.DebugDirs = nil
	}
	var err error
	f.From.Dialect, err = resolve.ParseDialect(f.dialect)
	return errors.Join(early, err)
}

// Source returns the trace.
func (f *Flags) Source() *tables.Source { return &tables.Source{From: &f.From, Symbols: &f.Symbols} }
