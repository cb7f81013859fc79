package main

import (
	"flag"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/symbols"
)

// symbolFlags are the flags about names of functions, the same for all
// commands that have them.
type symbolFlags struct{ symbols.Options }

func (f *symbolFlags) register(fs *flag.FlagSet) {
	fs.BoolVar(&f.On, "symbols", false, "name the function of each frame, with source line and inlined functions")
	fs.BoolVar(&f.NoLines, "no-lines", false, "with --symbols: functions only, which is faster")
	fs.BoolVar(&f.NoInfer, "no-infer", false, "with --symbols: omit functions that unwinding by frame pointers has skipped")
	fs.Var((*command.List)(&f.DebugDirs), "debug-dir", "with --symbols: look for debug information in `DIR`, too; may be repeated")
}

// registerNetwork registers what takes time: not for live.
func (f *symbolFlags) registerNetwork(fs *flag.FlagSet) {
	fs.BoolVar(&f.Debuginfod, "debuginfod", false, "fetch files that are not here from the servers of $DEBUGINFOD_URLS")
}
