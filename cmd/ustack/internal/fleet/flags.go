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
)

// program is the program with the engine.
const program = "ustack-fleet"

// Export are the flags of export.
type Export struct {
	Reports
	Dir string
	// DDL are the tables that are printed; no report is read then.
	DDL      DDL
	Cluster  string
	Database string
	format   string
}

// OTLP reports whether profiles are wanted, and not tables.
func (f *Export) OTLP() bool { return f.format == "otlp" }

// DDL is a kind of tables of an engine, "" for none.
type DDL string

// The kinds of tables.
const (
	ClickHouse            DDL = "clickhouse"
	ClickHouseDistributed DDL = "clickhouse-distributed" // over the shards of a cluster
)

func (d *DDL) set(name string) error {
	if *d = DDL(name); *d != ClickHouse && *d != ClickHouseDistributed {
		return fmt.Errorf("it is %s or %s", ClickHouse, ClickHouseDistributed)
	}
	return nil
}

// ParseExport parses the arguments of export.
func ParseExport(args []string, stdout io.Writer) (*Export, error) {
	var f Export
	fs := command.NewFlags("export")
	fs.StringVar(&f.format, "format", "parquet", "`FORMAT`: parquet (tables), or otlp (a profile of each report)")
	fs.StringVar(&f.Dir, "o", "", "add the tables, or the profiles, to those in `DIR`")
	fs.Func("ddl", "print the statements that create the tables of `ENGINE`: clickhouse, or clickhouse-distributed for the shards of a cluster", f.DDL.set)
	fs.StringVar(&f.Cluster, "cluster", "ustack", "the `NAME` of the cluster in the configuration of ClickHouse, for --ddl=clickhouse-distributed")
	fs.StringVar(&f.Database, "database", DefaultDatabase, "the `NAME` of the database in which --ddl=clickhouse-distributed has its tables")
	f.define(fs)
	if err := command.ParseOperands(fs, args, help.Usage("export"), stdout); err != nil {
		return nil, err
	}
	f.Files = fs.Args()
	return &f, f.check()
}

func (f *Export) check() error {
	switch {
	case f.DDL != "" && (len(f.Files) > 0 || f.Dir != ""):
		return errors.New("--ddl prints statements, and takes no reports and no -o")
	case !IsName(f.Cluster) || !IsName(f.Database):
		return errors.New("--cluster and --database take a name of letters, digits and _")
	case f.DDL != "":
		return nil
	case f.format != "parquet" && !f.OTLP():
		return fmt.Errorf("unknown format %.40q (one of parquet, otlp)", f.format)
	case f.Dir == "":
		return errors.New("a directory for the tables is needed: -o DIR")
	}
	return f.Reports.check()
}

// Ask are the flags of fleet.
type Ask struct {
	Question Question
	Dir      string   // with tables, "" for a server
	Server   *Address // nil for a directory
	// Credentials is a file, "" for the environment.
	Credentials string
	// Where A and B are what diff compares, "" else.
	A, B string
	// Top is how many rows the answer has at most.
	Top   int
	By    Order
	Locks bool // without futexes that are waited for as for an event
	SQL   bool // print the question
	// Exact: answer from single samples, without sums, and do not round percentiles.
	Exact bool
	// Functions is the file with the table functions of Dir, "" if there is none. It is set
	// before Statement is called.
	Functions string
	// Older: no table of Dir has the later columns of devices. It is set before Statement is called.
	Older bool
	// Sums: all tables of Dir have sums, which the question takes. It is set before Statement is
	// called.
	Sums   bool
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
	command.JSON(fs)
	fs.IntVar(&f.Top, "top", defaultTop, "at most `N` rows")
	fs.Func("by", "`ORDER` of locks: total, devices, p99 or waits (default total)", f.By.set)
	fs.StringVar(&f.A, "a", "", "for diff: compare devices of the operating system `OS` ...")
	fs.StringVar(&f.B, "b", "", "for diff: ... with devices of this `OS`, in which it is new")
	fs.BoolVar(&f.Locks, "locks", false, "locks only, and no condition variables, joins and the like")
	fs.BoolVar(&f.SQL, "sql", false, "print the question as SQL for DuckDB or ClickHouse, and do not answer it")
	fs.BoolVar(&f.Exact, "exact", false, "for top and diff: count single samples, and not their sums, with p99 as it is: takes longer")
	fs.StringVar(&f.Credentials, "credentials", "", "take USER:PASSWORD of the server from `FILE`, and not from the environment")
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
	if err := command.ParseOperands(fs, args, help.Usage("fleet"), stdout); err != nil {
		return err
	}
	rest := fs.Args()
	if f.Question == "" && len(rest) > 0 {
		f.Question, rest = Question(rest[0]), rest[1:]
	}
	if len(rest) != 1 {
		return errors.New("a question and a DIR or the address of a server are needed: ustack fleet top DIR; questions are top, devices, diff, causes and estimate")
	}
	if IsAddress(rest[0]) {
		var err error
		f.Server, err = ParseAddress(rest[0])
		return err
	}
	f.Dir = rest[0]
	return nil
}

func (f *Ask) check() error {
	switch {
	case !f.Question.known():
		return fmt.Errorf("unknown question %.40q (one of top, devices, diff, causes, estimate)", f.Question)
	case f.Question == Diff && (f.A == "" || f.B == ""):
		return errors.New("diff compares two operating systems: --a OS --b OS; ustack fleet devices DIR lists them")
	case f.Question == Diff && f.A == f.B:
		return errors.New("--a and --b are the same operating system")
	case f.Question != Diff && f.A+f.B != "":
		return errors.New("--a and --b are for diff")
	case f.Exact && f.Question != Top && f.Question != Diff:
		return errors.New("--exact is for top and diff")
	case f.Locks && f.Question == Devices:
		return errors.New("--locks is for top, diff, causes and estimate")
	case f.Question.inMemory() && (f.SQL || f.Server != nil):
		return fmt.Errorf("%s is answered from a DIR, and not as SQL or by a server", f.Question)
	case f.Question.inMemory() && f.By != ByTotal:
		return fmt.Errorf("the answer of %s is in the order of total time", f.Question)
	case f.Credentials != "" && f.Server == nil:
		return errors.New("--credentials is for a server")
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
