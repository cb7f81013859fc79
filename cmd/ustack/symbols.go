package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"runtime/debug"

	"ustack/cmd/ustack/internal/command"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render"
)

// symbolFlags are the flags about names of functions, the same for all
// commands that have them.
type symbolFlags struct {
	on         bool
	noLines    bool
	noInfer    bool
	debugDirs  command.List
	debuginfod bool
}

func (f *symbolFlags) register(fs *flag.FlagSet) {
	fs.BoolVar(&f.on, "symbols", false, "name the function of each frame, with source line and inlined functions")
	fs.BoolVar(&f.noLines, "no-lines", false, "with --symbols: functions only, which is faster")
	fs.BoolVar(&f.noInfer, "no-infer", false, "with --symbols: omit functions that unwinding by frame pointers has skipped")
	fs.Var(&f.debugDirs, "debug-dir", "with --symbols: look for debug information in `DIR`, too; may be repeated")
}

// registerNetwork registers what takes time: not for live.
func (f *symbolFlags) registerNetwork(fs *flag.FlagSet) {
	fs.BoolVar(&f.debuginfod, "debuginfod", false, "fetch files that are not here from the servers of $DEBUGINFOD_URLS")
}

// symbolMemory is the memory limit with symbols: those of large programs need
// more than the traces.
const symbolMemory = 384 << 20

// open opens the symbols of the files of a machine whose root is sysroot, of this
// one if that is "". It is nil without --symbols. It prints what is fetched on
// stderr.
func (f *symbolFlags) open(sysroot string, stderr io.Writer) (*symbol.Symbols, error) {
	if !f.on {
		if f.noLines || f.noInfer || len(f.debugDirs) > 0 || f.debuginfod {
			return nil, errors.New("--no-lines, --no-infer, --debug-dir and --debuginfod need --symbols")
		}
		return nil, nil
	}
	debug.SetMemoryLimit(symbolMemory)
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then there is no cache of perf's
	}
	opt := symbol.Options{Sysroot: sysroot, DebugDirs: f.debugDirs, Home: home, NoLines: f.noLines, NoInfer: f.noInfer}
	if f.debuginfod {
		if opt.Fetch, err = fetcher(home, stderr); err != nil {
			return nil, err
		}
	}
	return symbol.New(opt)
}

// output is how the trace is written.
type output struct {
	json bool
	wait int64 // for the dialect in the header of JSON, in bytes of input
	text render.TextOptions
}

// renderer writes the trace to w, with names if there are any.
func (out output) renderer(w io.Writer, res *resolve.Resolver, names *symbol.Symbols) render.Renderer {
	if out.json {
		j := render.NewJSON(w, res, out.wait)
		if names != nil {
			j.Symbols(names)
		}
		return j
	}
	if names != nil {
		out.text.Symbols = names
	}
	return render.NewText(w, out.text)
}
