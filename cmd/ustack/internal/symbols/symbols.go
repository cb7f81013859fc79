// Package symbols opens the symbols of files as the flags of a command ask for it.
package symbols

import (
	"errors"
	"os"
	"runtime/debug"

	"ustack/filemap/openfile"
	"ustack/filemap/symbolize"
	"ustack/render/progress"
)

// Options say whether and how functions are named.
type Options struct {
	On         bool
	NoLines    bool     // functions only
	NoInfer    bool     // without those that unwinding by frame pointers has skipped
	DebugDirs  []string // with debug information
	Debuginfod bool     // files are fetched from servers
	// Fetch fetches a file from there, once Open has been called; nil without Debuginfod.
	Fetch func(id, what string) (path string, err error)
}

// memory is the memory limit with symbols: the symbols of large programs need more
// than the traces.
const memory = 384 << 20

// Open opens the symbols of the files of a machine whose root is sysroot, or of
// this one if sysroot is "". It is nil if they are not wanted. Files that are fetched
// or read are steps of line, which may be nil.
func (opt *Options) Open(sysroot string, line *progress.Line) (*symbolize.Symbols, error) {
	return opt.open(sysroot, line, nil)
}

// OpenLive opens the symbols of the files of this machine for a trace that has begun after since.
func (opt *Options) OpenLive(since *openfile.Begin) (*symbolize.Symbols, error) {
	return opt.open("", nil, since)
}

func (opt *Options) open(sysroot string, line *progress.Line, since *openfile.Begin) (*symbolize.Symbols, error) {
	if !opt.On {
		if opt.NoLines || opt.NoInfer || len(opt.DebugDirs) > 0 || opt.Debuginfod {
			return nil, errors.New("--no-lines, --no-infer, --debug-dir and --debuginfod need --symbols")
		}
		return nil, nil
	}
	debug.SetMemoryLimit(memory)
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then there is no cache of perf's
	}
	sopt := symbolize.Options{Sysroot: sysroot, DebugDirs: opt.DebugDirs, Home: home, NoLines: opt.NoLines, NoInfer: opt.NoInfer, Since: since}
	if line != nil {
		sopt.Loading = func(path string) func() { return line.Begin("reading the symbols of "+path, nil).End }
	}
	if opt.Debuginfod {
		if opt.Fetch, err = fetcher(home, line); err != nil {
			return nil, err
		}
		sopt.Fetch = opt.Fetch
	}
	return symbolize.New(sopt)
}
