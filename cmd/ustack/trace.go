package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"ustack/filemap/evidence"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/tracefs/input"
)

// traceFlags are the flags of the commands that read a saved trace.
type traceFlags struct {
	quiet   bool
	dialect resolve.Dialect
	maps    string
	sysroot string
	symbols symbolFlags // of commands that name functions
	perfMap string
	strict  bool         // no claimed files
	why     *resolve.Why // the frame to explain
	saved   bool         // mappings that a trace.dat has are of use
	files   []string

	dialectName string
}

// define adds the flags to those of a command.
func (f *traceFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.dialectName, "dialect", "auto", "`DIALECT` of the stacks: auto, plain, offset, inode, hash, resolved, stock, or D0 to D5")
	fs.StringVar(&f.maps, "maps", "", "check file mapping events against the mappings in `DUMP` (ustack maps --save, or a directory or tar of PID.maps), and look raw addresses up there")
	fs.StringVar(&f.sysroot, "sysroot", "", "`DIR` with the ELF files at their paths: for --symbols, and to check code with --maps")
}

// defineStrict adds what leaves out files that nothing proves.
func defineStrict(fs *flag.FlagSet, strict *bool) {
	fs.BoolVar(strict, "strict", false, "leave frames unresolved whose file is only claimed: reported because of another stack")
}

// definePerfMap adds what is for commands that name functions.
func (f *traceFlags) definePerfMap(fs *flag.FlagSet) {
	fs.StringVar(&f.perfMap, "perf-map", "", "with --symbols: name JIT code by perf-PID.map in `DIR`")
}

// parsed checks the flags and takes the names of the files.
func (f *traceFlags) parsed(files []string) error {
	f.files = files
	var err error
	f.dialect, err = resolve.ParseDialect(f.dialectName)
	fromStdin := 0
	for _, name := range f.files {
		if name == "-" {
			fromStdin++
		}
		if strings.HasPrefix(name, "--") {
			return errors.Join(err, fmt.Errorf("flags go before the files: %s", name))
		}
	}
	if fromStdin > 1 {
		return errors.Join(err, errors.New("standard input can be read only once"))
	}
	if len(f.files) == 0 {
		f.files = []string{"-"}
	}
	return err
}

// savedTrace is an opened trace and how its frames get their files.
type savedTrace struct {
	*input.Trace
	flags    *traceFlags
	opt      resolve.Options
	in       input.Options
	evidence *withEvidence
	note     string // what is wrong with the mappings that a trace.dat has
}

// open opens the trace, and with --maps reads it for the first time.
func (f *traceFlags) open(stdin io.Reader, in input.Options, opt resolve.Options) (*savedTrace, error) {
	ev, err := f.evidence(stdin)
	if err != nil {
		return nil, err
	}
	in.NoShapes = in.NoShapes || ev.judge != nil || ev.exact != nil || ev.perfMaps != nil || ev.vdso != nil
	opt.Dialect, opt.Strict, opt.Why = f.dialect, f.strict, f.why
	in.NoShapes = in.NoShapes || f.strict
	if ev.exact != nil {
		opt.Evidence = ev.exact
	}
	t := &savedTrace{flags: f, opt: opt, in: in, evidence: ev}
	if t.Trace, err = input.OpenAll(ev.files, stdin, in); err != nil {
		ev.close()
		return nil, err
	}
	if err := t.useSaved(); err != nil {
		ev.close()
		return nil, err
	}
	t.opt.Sources = t.Trace.Sources()
	if again := t.Again(); again != nil {
		t.opt.First = input.NewFirsts(again).Find
	}
	if ev.judge != nil {
		t.opt.Evidence = ev.judge
		if err := ev.gather(t.Trace, t.opt); err != nil {
			ev.close()
			return nil, err
		}
	}
	t.opt.Evidence = ev.named(t.opt.Evidence)
	return t, nil
}

// useSaved takes the mappings in a trace.dat as evidence, if there is no better
// one.
func (t *savedTrace) useSaved() error {
	again := t.Again()
	if !t.flags.saved || t.flags.maps != "" || again == nil {
		return nil
	}
	processes, err := t.Processes()
	if err != nil {
		t.note = err.Error()
	}
	if len(processes) == 0 {
		return nil
	}
	t.opt.Evidence = evidence.NewSaved(processes)
	if t.in.NoShapes {
		return nil
	}
	t.in.NoShapes = true // evidence looks at every stack
	if err := t.Trace.Close(); err != nil {
		return err
	}
	t.Trace, err = again(t.in)
	return err
}

func (t *savedTrace) close() { t.evidence.close() }

// findLateStacks has stacks that come too late for their events looked for in
// the whole trace, if it can be read again.
func (t *savedTrace) findLateStacks() {
	again := t.Again()
	if again == nil {
		return
	}
	t.opt.Late = resolve.NewLateStacks(func(opt resolve.Options) error {
		trace, err := again(input.Options{NoShapes: t.in.NoShapes, Bare: t.in.Bare})
		if err != nil {
			return err
		}
		_, err = pump(trace.Start(), resolve.New(opt), discard{}, func() {})
		return err
	})
}

// read reads the trace into the renderer that make gives for its resolver.
func (t *savedTrace) read(make func(*resolve.Resolver) render.Renderer, stderr io.Writer) (*resolve.Totals, error) {
	res := resolve.New(t.opt)
	progress := render.NewProgress(stderr, t.Progress(), t.flags.quiet || !render.IsTerminalWriter(stderr))
	defer progress.Done()
	totals, err := pump(t.Start(), res, make(res), progress.Step)
	if totals != nil { // all is read
		for _, note := range t.Notes() {
			fmt.Fprintf(stderr, "ustack: %s\n", note)
		}
		if t.note != "" {
			fmt.Fprintf(stderr, "ustack: %s\n", t.note)
		}
	}
	return totals, err
}

// readAgain reads it once more; false if that is not possible.
func (t *savedTrace) readAgain(w render.Renderer, stderr io.Writer) (bool, error) {
	again := t.Again()
	if again == nil {
		return false, nil
	}
	trace, err := again(t.in)
	if err != nil {
		return false, err
	}
	progress := render.NewProgress(stderr, trace.Progress(), t.flags.quiet || !render.IsTerminalWriter(stderr))
	defer progress.Done()
	_, err = pump(trace.Start(), resolve.New(t.opt), w, progress.Step)
	return err == nil, err
}

// pump drives records from the trace through the resolver to the renderer, and
// calls step after each batch, and now and then if p ticks. What was read before an error is written before
// the error is returned.
func pump(p input.Batches, res *resolve.Resolver, w render.Renderer, step func()) (*resolve.Totals, error) {
	defer p.Close()
	for {
		b, err := p.Next()
		if b == nil && err == nil {
			step()
			continue
		}
		paused := b.Paused
		res.Add(b)
		if err != nil {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			if err := w.Batch(h); err != nil {
				return nil, fmt.Errorf("writing the output: %w", err)
			}
			p.Free(res.Release(h))
		}
		if paused {
			if err := w.Flush(); err != nil {
				return nil, fmt.Errorf("writing the output: %w", err)
			}
		}
		step()
		if err == nil {
			continue
		}
		totals := res.Totals()
		if cerr := w.Close(totals); cerr != nil {
			return nil, fmt.Errorf("writing the output: %w", cerr)
		}
		if err == io.EOF {
			err = nil
		}
		return totals, err
	}
}
