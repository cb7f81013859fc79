package top

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"sync"
	"time"

	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/symbols"
)

// Flags select what is shown.
type Flags struct {
	view     contention.Flags
	to       destination.Flags // of the report at the end
	symbols  symbols.Options
	noNames  bool
	noOwners bool
	keep     time.Duration
	dir      string

	in, out *os.File
	look    Look
}

// Register defines the flags.
func (f *Flags) Register(fs *flag.FlagSet) {
	fs.BoolVar(&f.noNames, "no-symbols", false, "do not name functions")
	fs.BoolVar(&f.noOwners, "no-owners", false, "do not read the owners of locks from memory")
	fs.Var((*command.List)(&f.symbols.DebugDirs), "debug-dir", "look for debug information in `DIR`, too; may be repeated")
	fs.DurationVar(&f.keep, "keep", 0, "keep each wait of the last `TIME` at least, so that w and h save these without a mark")
	fs.StringVar(&f.dir, "dir", ".", "save reports in `DIR`")
}

// Check completes them: the streams must be a terminal that can show a screen.
func (f *Flags) Check(std command.Streams) (err error) {
	if f.keep < 0 {
		return errors.New("--keep must not be negative")
	}
	f.view.Register(command.NewFlags("top")) // the defaults of flags that top does not have
	f.symbols.On = !f.noNames
	to := command.NewFlags("top")
	f.to.Register(to)
	if err := to.Parse([]string{"--pager=never"}); err != nil { // which would hide that top has ended
		return err
	}
	if f.noNames {
		f.symbols.DebugDirs = nil
	}
	f.look = lookOf(os.Getenv)
	f.in, f.out, err = terminals(std.In, std.Out, os.Getenv)
	return errors.Join(err, f.view.Check())
}

// Run traces with opt by trace, and shows the screen meanwhile. Messages, and the report, come
// when the screen has gone. A command's standard streams are not the terminal.
func Run(f *Flags, opt *live.Options, std command.Streams, trace func(live.Sink) error) error {
	w := new(wishes)
	box := newMailbox()
	screen, err := newTerminal(newModel(f.look, w, box), f.in, f.out)
	if err != nil {
		return err
	}
	later := new(held)
	opt.Stdin, opt.Stdout, opt.Stderr = nil, nil, nil
	opt.Reporter.Out, opt.DebugDirs, opt.MayBeEmpty = later, f.symbols.DebugDirs, true
	err = trace(newSink(f, opt.Reporter, std.Out, screen, box, w))
	_, werr := std.Messages().Write(later.text())
	return errors.Join(err, screen.Err(), werr)
}

// newSink returns the sink.
func newSink(f *Flags, r *live.Reporter, stdout io.Writer, screen screen, box mailbox, w *wishes) *sink {
	return &sink{
		Live: contention.NewLive(f.view.Output, contention.LiveOptions{
			LiveOptions: analysis.LiveOptions{Symbols: f.symbols, Stdout: stdout, To: f.to, Text: true, Reporter: r}, Owners: !f.noOwners,
		}),
		windows: windows{keep: f.keep}, screen: screen, saver: saver{dir: f.dir, now: time.Now}, snapshots: box, wishes: w,
	}
}

// held keeps messages until the screen has gone: the first ones, if there are too many.
type held struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// maxHeld bounds them, in bytes.
const maxHeld = 1 << 16

// Write implements io.Writer.
func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.b.Len()+len(p) <= maxHeld {
		h.b.Write(p)
	}
	return len(p), nil
}

// text returns what was written.
func (h *held) text() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Bytes()
}
