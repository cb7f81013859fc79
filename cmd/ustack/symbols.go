package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"runtime/debug"

	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render"
)

// symbolFlags are the flags about names of functions, the same for all
// commands that have them.
type symbolFlags struct {
	on        bool
	noLines   bool
	debugDirs list
}

func (f *symbolFlags) register(fs *flag.FlagSet) {
	fs.BoolVar(&f.on, "symbols", false, "name the function of each frame, with source line and inlined functions")
	fs.BoolVar(&f.noLines, "no-lines", false, "with --symbols: functions only, which is faster")
	fs.Var(&f.debugDirs, "debug-dir", "with --symbols: look for debug information in `DIR`, too; may be repeated")
}

// symbolMemory is the memory limit with symbols: those of large programs need
// more than the traces.
const symbolMemory = 384 << 20

// open opens the symbols of the files of a machine whose root is sysroot, of
// this one if that is "". It is nil without --symbols.
func (f *symbolFlags) open(sysroot string) (*symbol.Symbols, error) {
	if !f.on {
		if f.noLines || len(f.debugDirs) > 0 {
			return nil, errors.New("--no-lines and --debug-dir need --symbols")
		}
		return nil, nil
	}
	debug.SetMemoryLimit(symbolMemory)
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then there is no cache of perf's
	}
	return symbol.New(symbol.Options{Sysroot: sysroot, DebugDirs: f.debugDirs, Home: home, NoLines: f.noLines})
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
