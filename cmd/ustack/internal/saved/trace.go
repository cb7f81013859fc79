// Package saved opens saved traces, with all that gives their frames files: the dumps
// and histories of what processes had mapped, the mappings in the trace itself, and maps
// of JIT code.
//
// A trace may be read several times, and gives the same records each time; an input that
// can be read only once is kept in a temporary file where that is needed. Trace.Close
// closes and removes what was opened beside the trace; the reader of the trace closes
// it at its end.
package saved

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap"
	"ustack/filemap/byid"
	"ustack/filemap/observed"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/timeline"
	"ustack/render"
	"ustack/render/perfetto"
	"ustack/render/progress"
	"ustack/tracefs"
	"ustack/tracefs/input"
	"ustack/tracefs/perfdata"
)

// Options say which trace is read, and with what.
type Options struct {
	Files   []string // the trace, "-" is standard input
	Dialect resolve.Dialect
	Maps    string       // dump or history of mappings, "" for none
	Sysroot string       // directory with the files of the machine, "" for this one
	PerfMap string       // directory with perf-PID.map, "" for none
	Symbols bool         // functions will be named
	Strict  bool         // no claimed files
	Own     bool         // mappings that a trace.dat has are of use
	Beside  bool         // the renderer asks for nothing but mappings while it reads
	Why     *resolve.Why // the frame to explain, nil for none
	Quiet   bool         // no progress
	// Messages is standard error, as render.Output returns it: progress is shown there. It
	// may be nil.
	Messages io.Writer
	// Lines is set if the output goes to a terminal line by line: progress would be between
	// the lines.
	Lines bool
	StackMaps
}

// Progress returns the line of progress, nil for none.
func (o *Options) Progress() *progress.Line { return render.Progress(o.Messages, o.Quiet || o.Lines) }

// reading begins the step of reading the trace.
func (o *Options) reading(what string, trace *input.Trace) *progress.Step {
	name := "standard input"
	switch n := len(o.Files); {
	case n > 1:
		name = fmt.Sprintf("%d files", n)
	case n == 1 && o.Files[0] != "-":
		name = filepath.Base(o.Files[0])
	}
	return o.Progress().Begin(what+" "+name, trace.Progress())
}

// SayTerminal says that a trace is expected on standard input, if that is a terminal: it
// looks as if nothing happened.
func SayTerminal(files []string, stdin io.Reader, messages io.Writer) {
	f, ok := stdin.(*os.File)
	if ok && messages != nil && slices.Contains(files, "-") && render.IsTerminal(f) {
		fmt.Fprintln(messages, "ustack: reading the trace from this terminal, up to Ctrl-D; to read a file, name it")
	}
}

// Trace is an opened trace and how its frames get their files.
type Trace struct {
	*input.Trace
	options    *Options
	opt        resolve.Options
	inner      resolve.Attributor // of opt, before code in no file gets its names
	in         input.Options
	attributor *attributed
	note       string // the error of the mappings that a trace.dat has
	byID       *byid.Finder
	ranges     *observed.Saved // of a trace.dat, nil for none
	copies     copies
}

// Open opens the trace, and with Maps reads it for the first time.
func (o *Options) Open(stdin io.Reader, in input.Options, opt resolve.Options) (*Trace, error) {
	SayTerminal(o.Files, stdin, o.Messages)
	ev, err := o.attributor(stdin)
	if err != nil {
		return nil, err
	}
	in.NoTemplates = in.NoTemplates || ev.attributor != nil || ev.exact != nil || ev.perfMaps != nil || ev.vdso != nil
	opt.Dialect, opt.Strict, opt.Why = o.Dialect, o.Strict, o.Why
	in.NoTemplates = in.NoTemplates || o.Strict
	if ev.exact != nil {
		in.Events, opt.Attributor = true, ev.bounded() // events have the times of their stacks
	}
	t := &Trace{options: o, opt: opt, in: in, attributor: ev}
	if perfdata.Supported {
		t.in.Unwind = t.copies.unwind
	}
	if t.Trace, err = o.openInputs(ev.files, stdin, &t.in); err != nil {
		ev.close()
		return nil, err
	}
	t.findByID()
	if err := errors.Join(t.useReport(), ev.attributed(t.Trace), t.useSaved(), t.useRecorded()); err != nil {
		ev.close()
		return nil, err
	}
	t.opt.Sources = t.Trace.Sources()
	if again := t.Again(); again != nil {
		t.opt.First = input.NewFirsts(again).Find
	}
	if ev.attributor != nil {
		t.opt.Attributor = ev.attributor
		if err := ev.gather(t, t.opt); err != nil {
			ev.close()
			return nil, err
		}
	}
	t.inner = t.opt.Attributor
	t.opt = t.anew(t.opt)
	return t, nil
}

// useSaved takes the mappings in a trace.dat, if there is no better
// one.
func (t *Trace) useSaved() error {
	again := t.Again()
	if !t.options.Own || t.options.Maps != "" || again == nil {
		return nil
	}
	processes, err := t.Processes()
	if err != nil {
		t.note = err.Error()
	}
	if len(processes) == 0 {
		return nil
	}
	if t.ranges, err = observed.NewSaved(processes, t.options.Sysroot); err != nil {
		return err
	}
	t.opt.Attributor = t.ranges
	return t.compareAll(again)
}

// compareAll opens the trace again if stacks may stand for others: mappings are compared
// with every stack.
func (t *Trace) compareAll(again func(input.Options) (*input.Trace, error)) error {
	if t.in.NoTemplates {
		return nil
	}
	t.in.NoTemplates = true
	return t.reopen(again)
}

// reopen opens the trace again, as t.in says.
func (t *Trace) reopen(again func(input.Options) (*input.Trace, error)) (err error) {
	if err := t.Trace.Close(); err != nil {
		return err
	}
	t.Trace, err = again(t.in)
	return err
}

// Close closes what was opened beside the trace, and removes temporary files. The trace
// itself is closed by Read.
func (t *Trace) Close() {
	t.attributor.close()
	if t.byID != nil {
		t.byID.Close()
	}
	if t.ranges != nil {
		t.ranges.Close()
	}
	t.copies.close()
}

// Programs has when programs began. It implements futex.Programs of package
// render/futex.
// It knows nothing of a trace that was not saved with the address spaces, and nothing more
// once another trace has begun in the input: times are by another clock then, and only
// times are given here.
type Programs struct {
	attributor *timeline.Attributor
	// foreign is asked when the first record has come: a pipe and a compressed trace have
	// no identifier before.
	foreign func() bool
	joined  func() bool
}

func (p *Programs) known() bool { return !p.joined() && !p.foreign() }

// Program returns when the program that a thread runs at a time began. ok is false if
// it is not known exactly.
func (p *Programs) Program(tid int32, at tracefs.Time) (began tracefs.Time, ok bool) {
	_, began, exact, ok := p.attributor.Program(int(tid), at)
	return began, ok && exact && p.known()
}

// ProcessAt returns the process of a thread at a time.
func (p *Programs) ProcessAt(tid int32, at tracefs.Time) (pid int32, ok bool) {
	n, _, _, ok := p.attributor.Program(int(tid), at)
	return int32(n), ok && p.known()
}

// Name returns the name of the program that a thread runs at a time, "" if unknown.
func (p *Programs) Name(tid int32, at tracefs.Time) string {
	if !p.known() {
		return ""
	}
	return p.attributor.Name(int(tid), at)
}

// Programs returns what address spaces that were saved with the trace say of programs,
// nil if there are none.
func (t *Trace) Programs() *Programs {
	if t.attributor.exact == nil {
		return nil
	}
	return &Programs{t.attributor.exact, sync.OnceValue(t.attributor.foreign), t.Joined}
}

// Layouts has what programs and libraries processes had when their trace was saved. It
// implements futex.Layouts of package render/futex, and knows as much as Programs.
type Layouts struct {
	layouts *timeline.Layouts
	known   func() bool
}

// Layout returns what a process had mapped around an address at a time.
func (l *Layouts) Layout(tid, _ int32, _ []byte, at tracefs.Time, timed bool, addr uint64) (filemap.Layout, filemap.Trust) {
	if !timed || !l.known() {
		return nil, filemap.NoTrust
	}
	return l.layouts.Layout(int(tid), at, addr)
}

// Stays reports whether a layout that Layout has returned for a thread holds at another
// time.
func (l *Layouts) Stays(tid, _ int32, _ []byte, at tracefs.Time, timed bool, _ uint64, layout filemap.Layout) proof.Stay {
	if !timed || !l.known() {
		return proof.Assumed
	}
	return l.layouts.Stays(int(tid), at, layout)
}

// Layouts returns what was saved with the trace of programs and libraries, nil if nothing was.
func (t *Trace) Layouts() *Layouts {
	p, h := t.Programs(), t.attributor.saved
	if p == nil || !h.HasLayouts() {
		return nil
	}
	return &Layouts{timeline.NewLayouts(p.attributor, timeline.LayoutOptions{Saved: h.Layouts}), p.known}
}

// Dump returns the mappings of a dump, nil if there is none.
func (t *Trace) Dump() *observed.Mappings { return t.attributor.attributor }

// Perfetto returns what a file for Perfetto says of the whole trace.
func (t *Trace) Perfetto() perfetto.Options {
	opt := perfetto.Options{Clock: t.Clock()}
	if ev := t.Dump(); ev != nil {
		opt.Process = ev.Process
	}
	return opt
}

// FindLateStacks has stacks that come too late for their events looked for in
// the whole trace, if it can be read again.
func (t *Trace) FindLateStacks() {
	again := t.Again()
	if again == nil {
		return
	}
	t.opt.Late = resolve.NewLateStacks(func(opt resolve.Options) error {
		trace, err := again(input.Options{NoTemplates: t.in.NoTemplates, NoText: t.in.NoText})
		if err != nil {
			return err
		}
		defer t.options.reading("looking for late stacks in", trace).End()
		_, err = pump.Run(trace.Start(), resolve.New(t.anew(opt)), discard{}, func() {})
		return err
	})
}

// Read reads the trace into the renderer that make gives for its resolver.
func (t *Trace) Read(make func(*resolve.Resolver) render.Renderer, stderr io.Writer) (*resolve.Totals, error) {
	res := resolve.New(t.opt)
	step := t.options.reading("reading", t.Trace)
	defer step.End()
	totals, err := t.run(t.Start(), res, make(res))
	if totals != nil { // all is read
		for _, note := range t.Notes() {
			fmt.Fprintf(stderr, "ustack: %s\n", note)
		}
		if note := t.attributor.note(); note != "" {
			fmt.Fprintf(stderr, "ustack: %s\n", note)
		}
		if note := t.attributor.namesNote(); note != "" {
			fmt.Fprintf(stderr, "ustack: %s\n", note)
		}
		if t.note != "" {
			fmt.Fprintf(stderr, "ustack: %s\n", t.note)
		}
	}
	return totals, err
}

// run drives the records of a reading to a renderer, beside the resolver if there are
// processors for both, and if the renderer has no mappings to ask for while the resolver
// does.
func (t *Trace) run(p input.Batches, res *resolve.Resolver, w render.Renderer) (*resolve.Totals, error) {
	if t.options.Beside && t.opt.Attributor == nil && runtime.GOMAXPROCS(0) > 1 {
		return pump.RunBeside(p, res, w)
	}
	return pump.Run(p, res, w, func() {})
}

// anew returns options for a reading: which turn a stack is of its thread and time (package
// anoncode) is counted from its beginning.
func (t *Trace) anew(opt resolve.Options) resolve.Options {
	opt.Attributor = t.attributor.named(t.inner)
	return opt
}

// ReadAgain reads it once more; false if that is not possible.
func (t *Trace) ReadAgain(w render.Renderer) (bool, error) {
	again := t.Again()
	if again == nil {
		return false, nil
	}
	trace, err := again(t.in)
	if err != nil {
		return false, err
	}
	defer t.options.reading("reading again, as records were lost,", trace).End()
	_, err = t.run(trace.Start(), resolve.New(t.anew(t.opt)), w)
	return err == nil, err
}
