package tables

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"ustack/cmd/ustack/internal/analysis"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/filemap/symbolize"
	"ustack/render/futex"
	futexreport "ustack/render/futex/report"
	"ustack/render/lost"
	"ustack/render/redact"
)

// Source is a saved trace, and how its functions are named.
type Source struct {
	From    *saved.Options
	Symbols *symbols.Options
	// Places has no functions named, and locks by their place in a file only: names come
	// later, from another machine.
	Places bool
}

// Loaded is what is not in tables.
type Loaded struct {
	// Report is the report of ustack futex, as text.
	Report string
}

// reader passes the events of a trace to their table, and all records to the analysis.
type reader struct {
	*futex.Analysis
	events *events // nil when the trace is read once more
}

// Batch implements render.Renderer.
func (r *reader) Batch(h *resolve.Pending) error {
	if r.events != nil {
		if err := r.events.batch(h); err != nil {
			return err
		}
	}
	return r.Analysis.Batch(h)
}

// Load reads a trace and sends the rows of all tables. A part of a trace is an error: an
// answer from it would be wrong.
func (s *Source) Load(stdin io.Reader, stderr io.Writer, to Sink) (*Loaded, error) {
	events := newEvents(to)
	entries, err := symbolize.NewEntries(symbolize.Options{Sysroot: s.From.Sysroot})
	if err != nil {
		return nil, err
	}
	defer entries.Close()
	a, err := s.read(entries, stdin, stderr, events)
	if err != nil {
		if a != nil {
			a.DropCalls()
		}
		return nil, err
	}
	defer a.DropCalls()
	names, err := s.Symbols.Open(s.From.Sysroot, s.From.Progress())
	if err != nil {
		return nil, err
	}
	if names != nil {
		defer names.Close()
		if s.Places {
			a.NameLocks(places{names})
		} else {
			a.Name(names)
			a.NameLocks(names)
			events.stacks.Name(names)
		}
	}
	l := loader{to: to, a: a, events: events, stacks: newStackRows(to), locks: make(map[*futex.Lock]int64)}
	if err := l.rows(); err != nil {
		return nil, err
	}
	return l.report()
}

// places names no variables: locks have their places.
type places struct{ futex.Variables }

// Variable implements futex.Variables.
func (places) Variable(filemap.Layout, uint64) *symbol.Variable { return nil }

// read reads the trace. The analysis needs the entries until its last report.
func (s *Source) read(entries *symbolize.Entries, stdin io.Reader, stderr io.Writer, events *events) (*futex.Analysis, error) {
	read := analysis.Saved[*reader]{From: s.From, Text: true, Drop: func(r *reader) { r.DropCalls() }, New: func(trace *saved.Trace, gaps *lost.Gaps) *reader {
		opt := futex.Options{Calls: true, GoHeap: redact.IsGoHeap, Gaps: gaps, Entries: entries}
		if ev := trace.Dump(); ev != nil {
			opt.Mappings = ev
			if s.From.Symbols {
				opt.Layouts = ev
			}
		}
		if p := trace.Programs(); p != nil {
			opt.Programs = p
		}
		if l := trace.Layouts(); l != nil && s.From.Symbols {
			opt.Layouts = l
		}
		r := &reader{Analysis: futex.New(opt)}
		if gaps == nil {
			r.events = events
		}
		return r
	}}
	r, err := read.Read(stdin, stderr)
	if r == nil {
		return nil, err
	}
	return r.Analysis, err
}

// loader sends the rows that are known at the end of a trace.
type loader struct {
	to     Sink
	a      *futex.Analysis
	r      *futex.Report
	events *events
	stacks *stackRows
	locks  map[*futex.Lock]int64 // their numbers
	waits  int64
}

// everything is the view with all rows.
func everything() futex.View { return futex.View{Sort: "total", By: futex.ByLock} }

// rows sends them.
func (l *loader) rows() error {
	l.r = l.a.Report(everything())
	return errors.Join(l.stacks.all(&l.events.stacks), l.trace(), l.lockRows(), l.waitRows(), l.holdRows())
}

func (l *loader) trace() error {
	if err := traceTable().put(l.to, &traceRow{l.r, l.events.count}); err != nil {
		return err
	}
	threads := threadsTable()
	for i := range l.r.Threads {
		if err := threads.put(l.to, &l.r.Threads[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) lockRows() error {
	locks := locksTable()
	for _, list := range [][]*futex.Lock{l.r.Locks, l.r.Signals} {
		for _, lock := range list {
			n := int64(len(l.locks)) + 1
			l.locks[lock] = n
			if err := locks.put(l.to, &lockRow{n, lock, l.r.Loss.Bounded}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader) waitRows() error {
	waits, losses := waitsTable(), lossTable()
	return l.a.WaitCalls(l.r, everything(), func(c *futex.WaitCall) error {
		l.waits++
		row := waitRow{WaitCall: c, id: l.waits, lock: l.locks[c.Lock], end: l.r.End}
		var err, other error
		row.stack, err = l.stacks.number(c.Stack)
		row.wakerStack, other = l.stacks.number(c.Waker.Stack)
		if err = errors.Join(err, other); err != nil {
			return err
		}
		return waits.put(l.to, &row)
	}, func(t *futex.LostTime) error { return losses.put(l.to, t) })
}

func (l *loader) holdRows() error {
	holds := holdsTable()
	return l.a.EachHold(l.r, func(h *futex.Hold) error {
		row := holdRow{Hold: h, lock: l.locks[h.Lock]}
		var err error
		if row.stack, err = l.stacks.number(h.Stack); err != nil {
			return err
		}
		return holds.put(l.to, &row)
	})
}

// reportTop is how many rows a section of the report has.
const reportTop = 10

// report writes the report.
func (l *loader) report() (*Loaded, error) {
	var b bytes.Buffer
	r := l.a.Interim(futex.View{Top: reportTop, By: futex.ByAuto})
	if err := futexreport.Text(&b, r, futexreport.Options{Top: reportTop}); err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return &Loaded{Report: b.String()}, nil
}
