package main

import (
	"errors"
	"flag"

	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap/resolve"
)

// traceFlags are the flags of the commands that read a saved trace.
type traceFlags struct {
	saved.Options
	symbols     symbolFlags // of commands that name functions
	dialectName string
}

// define adds the flags to a command.
func (f *traceFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.dialectName, "dialect", "auto", "`DIALECT` of the stacks: auto, plain, offset, inode, hash, resolved, stock, or D0 to D5")
	fs.StringVar(&f.Maps, "maps", "", "check file mapping events against the mappings in `DUMP` (ustack maps --save, or a directory or tar of PID.maps), and look raw addresses up there")
	fs.StringVar(&f.Sysroot, "sysroot", "", "`DIR` with the ELF files at their paths: for --symbols, and to check code with --maps")
}

// defineStrict adds what leaves out files that nothing proves.
func defineStrict(fs *flag.FlagSet, strict *bool) {
	fs.BoolVar(strict, "strict", false, "leave frames unresolved whose file is only claimed: reported because of another stack")
}

// definePerfMap adds the flags of commands that name functions.
func (f *traceFlags) definePerfMap(fs *flag.FlagSet) {
	fs.StringVar(&f.PerfMap, "perf-map", "", "with --symbols: name JIT code by perf-PID.map in `DIR`")
}

// parsed checks the flags and takes the names of the files.
func (f *traceFlags) parsed(files []string) error {
	f.Files, f.Options.Symbols = files, f.symbols.On
	var err error
	f.Dialect, err = resolve.ParseDialect(f.dialectName)
	fromStdin := 0
	for _, name := range f.Files {
		if name == "-" {
			fromStdin++
		}
	}
	if fromStdin > 1 {
		return errors.Join(err, errors.New("standard input can be read only once"))
	}
	if len(f.Files) == 0 {
		f.Files = []string{"-"}
	}
	return err
}
