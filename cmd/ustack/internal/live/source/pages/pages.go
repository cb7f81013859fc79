// Package pages reads the ring buffer and has its sub-buffers written as they are: no text
// is made of them. It costs the least, and is for record.
package pages

import (
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/pump"
	"ustack/tracefs"
	"ustack/tracefs/pagefile"
	"ustack/tracefs/raw"
	"ustack/tracefs/text"
)

// pages is a source.Source. Its batches have records of losses only, and are marked as
// paused: what the engine knows is brought up to date after each.
type pages struct {
	*raw.Pages
	cpus     []int32
	capture  *pagefile.Capture
	complete func() error
	begun    int64 // bytes of earlier sources
	rest     bool  // records are to gather first
}

// Open opens the source.
func Open(r *source.Request) (source.Source, error) {
	if r.Tasks == nil {
		return nil, errors.New("recording pages: names of tasks come from the perf side band only, and it is not in use")
	}
	in, err := raw.OpenPages(r.Instance, r.Enabled, r.Kernel)
	if err != nil {
		return nil, fmt.Errorf("recording pages: %w", err)
	}
	p := &pages{Pages: in, cpus: in.CPUs(), capture: r.Pages, complete: r.Complete, begun: r.Pages.Bytes()}
	if err := r.Pages.Begin(in.Files, r.Tasks, p.cpus); err != nil {
		return nil, errors.Join(fmt.Errorf("recording pages: %w", err), in.Close())
	}
	return p, nil
}

// Next implements input.Reader.
func (p *pages) Next(b *tracefs.Batch) error {
	b.Reset()
	b.Escaped, b.Paused = true, true
	p.capture.Confirm() // or there would be another source by now
	if p.capture.Due() {
		// What was read before the last batch has its mappings in the log by now.
		if err := errors.Join(p.complete(), p.capture.Flush()); err != nil {
			return err
		}
	}
	if p.rest {
		if err := p.Rest(p.Pace); err != nil {
			return err
		}
	}
	ended := p.Ended() // before it is found empty
	some, more, err := p.round(b)
	p.rest = some && !more
	switch {
	case err != nil || some:
		return err
	case ended:
		return io.EOF
	}
	_, err = p.Wait(pump.HoldPause)
	return err
}

// round takes what the CPUs have. some is false if that is nothing; more is set if there
// may be more than there is room for before the next Flush.
func (p *pages) round(b *tracefs.Batch) (some, more bool, err error) {
	if !p.Hold() {
		return false, false, fmt.Errorf("reading the ring buffer: %w", os.ErrClosed)
	}
	defer p.Release()
	for i, cpu := range p.cpus {
		for {
			if !p.capture.Room(cpu) {
				more = true
				break
			}
			page, fresh, err := p.RawPipe.Next(i)
			if err != nil {
				return some, more, err
			}
			if !fresh || len(page) == 0 {
				break
			}
			some = true
			if l := p.capture.Add(cpu, page); l != nil {
				lost(b, l)
			}
		}
	}
	return some, more, nil
}

// lost adds a record that records are missing.
func lost(b *tracefs.Batch, l *pagefile.Loss) {
	at := uint32(len(b.Text))
	b.Text = text.AppendLost(b.Text, l.CPU, l.Count)
	b.Records = append(b.Records, tracefs.Record{Off: at, Body: at, End: uint32(len(b.Text)), CPU: l.CPU, TID: tracefs.NoTID, Kind: tracefs.KindLost, Value: l.Count})
	b.Lines++
}

// Name implements source.Source.
func (p *pages) Name() string { return "pages" }

// Exact implements source.Source.
func (p *pages) Exact() bool { return true }

// Size implements source.Source.
func (p *pages) Size() int64 { return p.capture.Bytes() - p.begun }

// Losing implements source.Source.
func (p *pages) Losing() bool { return false }

// Notes implements source.Source.
func (p *pages) Notes() []string { return nil }

// Interrupt implements source.Source.
func (p *pages) Interrupt() error { return p.Close() }
