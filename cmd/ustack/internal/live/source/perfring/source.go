//go:build !device

package perfring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/pump"
	"ustack/tracefs/binary"
	"ustack/tracefs/format"
	"ustack/tracefs/perftrace"
	"ustack/tracefs/ring"
)

// rings is a source.Source.
type rings struct{ *perftrace.Trace }

// Open implements source.Recorder.
func (r *Recorder) Open(q *source.Request) (source.Source, error) {
	if q.Tasks == nil {
		return nil, errors.New("--source=perf: names of tasks come from the perf side band only, and it is not in use")
	}
	k, err := r.kernel()
	if err != nil {
		return nil, fmt.Errorf("--source=perf: %w", err)
	}
	k.Names, k.Symbols = q.Tasks, q.Symbols
	own := os.Getpid()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = perftrace.New(k, r.sampler, perftrace.Options{
		Options: binary.Options{Events: q.Events, NoTemplates: true, NoText: q.NoText},
		Leave:   func(pid int) bool { return pid == own },
		Twice:   r.twice, Pause: pump.HoldPause,
	})
	return &rings{r.trace}, nil
}

// kernel returns what is known about the kernel that its records are printed by.
func (r *Recorder) kernel() (*binary.Kernel, error) {
	var patterns []string
	for _, e := range r.opt.Events {
		patterns = append(patterns, e.System+"/"+e.Name)
	}
	events, err := format.Read(r.opt.Root.FS(), patterns...)
	if err != nil {
		return nil, Unreadable(err)
	}
	if len(events) < len(r.opt.Events) {
		return nil, fmt.Errorf("tracefs has %d formats of %d events", len(events), len(r.opt.Events))
	}
	strings, _ := fs.ReadFile(r.opt.Root.FS(), "printk_formats") // few events need it
	return &binary.Kernel{
		Layout: ring.Layout{Page: *format.DefaultPage()}, Events: events, Clock: r.opt.Clock, Release: r.opt.Release,
		Strings: binary.ParseStrings(strings),
	}, nil
}

// Name implements source.Source.
func (*rings) Name() string { return Name }

// Exact implements source.Source.
func (*rings) Exact() bool { return true }

// Losing implements source.Source. What is missing on a CPU is not known before the record
// that says so.
func (*rings) Losing() bool { return false }

// Interrupt implements source.Source.
func (r *rings) Interrupt() error {
	r.Wake()
	return nil
}
