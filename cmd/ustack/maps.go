package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/signals"
	"ustack/filemap/anoncode"
	"ustack/filemap/facts"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/render"
	"ustack/render/outfile"
	"ustack/tracefs/privilege"
)

const mapsHelp = `usage: ustack maps [flags] [PID...]
       ustack maps --addr=ADDRESS [flags] PID
       ustack maps [flags] TRACE.DAT [PID...]

Lists the executable mappings of processes, of all without PID: which file is
mapped where, from which offset on, and its build ID. Manual: ustack help maps.

  ustack maps 1234
  ustack maps --files
  ustack maps --json | jq -r 'select(.kind == "memfd") | .comm'
  ustack maps --save=dump.tar      # for ustack replay --maps=dump.tar
  ustack maps --addr=0x7f3a5c0291ca 1234
  ustack maps --addr=- 1234 < addresses
  ustack maps trace.dat

A trace.dat of trace-cmd record --proc-map has names and addresses only, of
mappings of all permissions: the rest is "?".

Other users' processes need CAP_SYS_PTRACE. Exit codes: 0 ok, 1 failure (also
of one PID that was asked for), 2 usage.

`

// mapsFlags are the flags of maps.
type mapsFlags struct {
	all, files, json bool
	save, addr       string
	source           mapsSource
	pids             []int
	file             string // a trace.dat, "" for live processes
	ids              *procmap.IDs
}

// mapsSource is --maps-source, of all commands that read mappings.
type mapsSource struct{ procmap.Source }

func (s *mapsSource) register(fs *flag.FlagSet) {
	fs.Var(s, "maps-source", "read mappings by `SOURCE`: auto, ioctl (PROCMAP_QUERY) or text; build IDs come from the files")
}

// Set implements flag.Value.
func (s *mapsSource) Set(word string) (err error) {
	s.Source, err = procmap.ParseSource(word)
	return err
}

func parseMaps(args []string, stdout io.Writer) (*mapsFlags, error) {
	var f mapsFlags
	fs := command.NewFlags("maps")
	fs.BoolVar(&f.all, "all", false, "mappings that are not executable too")
	fs.BoolVar(&f.files, "files", false, "a row for each distinct file, with the number of processes")
	fs.BoolVar(&f.json, "json", false, "JSON, an object a line")
	fs.StringVar(&f.save, "save", "", "write a dump of all mappings to `FILE` (a tar archive; - is standard output)")
	fs.StringVar(&f.addr, "addr", "", "print what `ADDRESS` is in a process; - reads many from standard input")
	f.source.register(fs)
	// Flags may stand between and after the PIDs.
	for rest := args; ; {
		if err := command.Parse(fs, rest, mapsHelp, stdout); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			break
		}
		if err := f.argument(fs.Arg(0)); err != nil {
			return nil, err
		}
		rest = fs.Args()[1:]
	}
	var err error
	fs.Visit(func(given *flag.Flag) {
		if given.Value.String() == "" {
			err = fmt.Errorf("--%s is empty", given.Name)
		}
	})
	if err != nil {
		return nil, err
	}
	return &f, f.check()
}

// argument takes a PID, or a file.
func (f *mapsFlags) argument(arg string) error {
	pid, err := strconv.ParseInt(arg, 10, 32)
	if err == nil && pid > 0 {
		f.pids = append(f.pids, int(pid))
		return nil
	}
	info, serr := os.Stat(arg)
	switch {
	case err == nil, serr != nil && !strings.ContainsAny(arg, "./"):
		return fmt.Errorf("%q is not a PID", arg)
	case serr != nil:
		return fmt.Errorf("%q is not a PID, and no file: %w", arg, serr)
	case info.IsDir():
		return fmt.Errorf("%q is not a PID, nor a trace.dat", arg)
	case f.file != "":
		return fmt.Errorf("%q is a second trace.dat", arg)
	}
	f.file = arg
	return nil
}

func (f *mapsFlags) check() error {
	switch {
	case f.file != "" && f.save != "":
		return errors.New("--save needs live processes: a trace.dat lacks parts of a dump")
	case f.file != "" && f.addr != "" && len(f.pids) == 0:
		return errors.New("--addr takes one PID, also of a trace.dat")
	case f.addr != "" && len(f.pids) != 1:
		return errors.New("--addr takes one PID")
	case f.addr != "" && (f.files || f.save != "" || f.all):
		return errors.New("--addr goes with no other flags than --json and --maps-source")
	case f.save != "" && (f.files || f.json || f.all):
		return errors.New("--save goes with no other flags than --maps-source")
	}
	return nil
}

// mapsCommand is the subcommand.
func mapsCommand(args []string, std command.Streams) error {
	f, err := parseMaps(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	switch {
	case f.file != "":
		return f.saved(std.In, std.Out)
	case f.addr != "":
		return f.addresses(std.In, std.Out)
	case f.save != "":
		return f.dump(std.Out, std.Err)
	default:
		return f.list(std.Out, std.Err)
	}
}

func (f *mapsFlags) reader(filter procmap.Filter) (*procmap.Reader, error) {
	f.ids = procmap.NewIDs(nil)
	return procmap.NewReader(procmap.Options{Source: f.source.Source, Filter: filter, IDs: f.ids, Stat: true})
}

// list writes mappings or files.
func (f *mapsFlags) list(stdout, stderr io.Writer) error {
	var filter procmap.Filter
	if !f.all {
		filter.Perms = procmap.Exec
	}
	r, err := f.reader(filter)
	if err != nil {
		return err
	}
	out := render.Output(stdout)
	var w render.MapsWriter
	switch {
	case f.files:
		w = render.NewMapsFiles(out, f.json)
	case f.json:
		w = render.NewMapsJSON(out)
	default:
		w = render.NewMapsTable(out)
	}
	err = f.walk(r, stderr, func(p *procmap.Process) error {
		if err := w.Process(p); err != nil {
			return fmt.Errorf("writing the mappings: %w", err)
		}
		return nil
	})
	if cerr := w.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("writing the mappings: %w", cerr)
	}
	return err
}

// errSome: some of the processes asked for could not be read; the reason for each
// has been printed.
var errSome = errors.New("not all of the processes could be read")

// walk reads the requested processes, and prints what could not be read: of each
// process that was named, and how many of all.
func (f *mapsFlags) walk(r *procmap.Reader, stderr io.Writer, fn func(*procmap.Process) error) error {
	named := len(f.pids) > 0
	failed := false
	counts, err := r.Walk(f.pids, func(p *procmap.Process, err error) error {
		if err == nil {
			return fn(p)
		}
		if named {
			failed = true
			fmt.Fprintf(render.Output(stderr), "ustack maps: %v\n", err)
		}
		return nil
	})
	if n := f.ids.Slow(); n > 0 {
		fmt.Fprintf(render.Output(stderr), "ustack maps: %s\n", render.NoAnswer(n))
	}
	switch {
	case err != nil:
		return err
	case failed:
		return errSome
	case !named:
		render.WriteMapsCounts(render.Output(stderr), &counts, procmap.CanTrace(), r.Hidden())
	}
	return nil
}

// dump writes all mappings to a file. Until it is complete it has another name,
// unless it is a device or a pipe.
func (f *mapsFlags) dump(stdout, stderr io.Writer) error {
	if err := facts.AsInTraces(privilege.Proc); err != nil {
		return err
	}
	if f.save == "-" {
		return f.writeDump(stdout, stderr)
	}
	name := f.save
	file, err := outfile.Special(name)
	special := file != nil
	if !special && err == nil {
		// Only we may read it: it shows where everything is in memory.
		file, err = os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-*")
	}
	if err != nil {
		return fmt.Errorf("creating the dump: %w", err)
	}
	stop := make(chan os.Signal, 1)
	if !special { // a pipe without a reader is left at once, and has nothing to remove
		signal.Notify(stop, append(signals.Hangup(), unix.SIGINT, unix.SIGTERM)...)
		defer signal.Stop(stop)
	}
	err = f.writeDump(&stoppable{file, stop}, stderr)
	if cerr := file.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("writing the dump: %w", cerr)
	}
	switch {
	case special:
	case err == nil, errors.Is(err, errSome):
		if rerr := os.Rename(file.Name(), name); rerr != nil {
			err = fmt.Errorf("naming the dump: %w", rerr)
		}
	default:
		_ = os.Remove(file.Name()) // the error is of writing
	}
	return err
}

// stoppable is a writer that fails once a signal has come: what was begun is taken
// away again then.
type stoppable struct {
	io.Writer
	stop <-chan os.Signal
}

func (w *stoppable) Write(b []byte) (int, error) {
	select {
	case s := <-w.stop:
		return 0, fmt.Errorf("stopped by signal %q", s)
	default:
		return w.Writer.Write(b)
	}
}

func (f *mapsFlags) writeDump(w io.Writer, stderr io.Writer) error {
	r, err := f.reader(procmap.Filter{})
	if err != nil {
		return err
	}
	dump := render.NewMapsDump(w, time.Now())
	err = f.walk(r, stderr, func(p *procmap.Process) error {
		// The time of reading is from which on this is known.
		head := procmap.Head{Time: int64(space.Monotonic()), PID: p.PID, Comm: p.Stat.Comm, Exe: r.Exe(p.PID)}
		if tids, err := r.Threads(p.PID); err == nil {
			dump.Threads(p.PID, tids)
		}
		if err := dump.Process(head, p.Mappings); err != nil {
			return fmt.Errorf("writing the dump: %w", err)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errSome) {
		return err
	}
	if vdso, verr := anoncode.OwnVDSO(); verr == nil && !vdso.ID().IsZero() {
		if verr := dump.VDSO(vdso.ID()); verr != nil {
			return fmt.Errorf("writing the dump: %w", verr)
		}
	}
	if cerr := dump.Close(); cerr != nil {
		return fmt.Errorf("writing the dump: %w", cerr)
	}
	return err
}
