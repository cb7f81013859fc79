// Package pipe reads trace_pipe: the text that the kernel makes of the ring buffer.
package pipe

import (
	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/pump"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// Name is the value of --source.
const Name = "text"

// Kind returns the source.
func Kind() source.Kind { return source.Kind{Name: Name, Help: "trace_pipe", Open: open} }

// live is a source.Source.
type live struct {
	*input.Trace
	pipe interface{ Close() error }
	size int64
}

func open(r *source.Request) (source.Source, error) {
	pipe, err := r.Instance.Pipe()
	if err != nil {
		return nil, err
	}
	file := input.Live(pipe.Name(), pipe)
	opt := input.Options{Events: r.Events, Escape: true, Pause: pump.HoldPause, NoTemplates: true}
	return &live{Trace: input.NewTrace([]*input.File{file}, opt), pipe: pipe}, nil
}

// Name implements source.Source.
func (l *live) Name() string { return Name }

// Exact implements source.Source: a name in text can hold a head of any time.
func (l *live) Exact() bool { return false }

// Next implements input.Reader.
func (l *live) Next(b *tracefs.Batch) error {
	err := l.Trace.Next(b)
	l.size += int64(len(b.Text))
	return err
}

// Size implements source.Source.
func (l *live) Size() int64 { return l.size }

// Losing implements source.Source: text is in order.
func (l *live) Losing() bool { return false }

// Notes implements source.Source: text has none.
func (l *live) Notes() []string { return nil }

// Interrupt implements source.Source.
func (l *live) Interrupt() error { return l.pipe.Close() }
