// Package ring reads the ring buffer itself.
package ring

import (
	"errors"
	"fmt"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/pump"
	"ustack/tracefs/binary"
	"ustack/tracefs/raw"
)

// Name is the value of --source.
const Name = "binary"

// Kind returns the source.
func Kind() source.Kind {
	return source.Kind{Name: Name, Help: "the ring buffer, which costs less and loses less", Open: open}
}

// live is a source.Source.
type live struct{ *binary.Live }

func open(r *source.Request) (source.Source, error) {
	ring, err := openRaw(r)
	if err != nil {
		return nil, fmt.Errorf("--source=binary: %w", err)
	}
	return &live{ring}, nil
}

func openRaw(r *source.Request) (*binary.Live, error) {
	if r.Tasks == nil {
		return nil, errors.New("names of tasks come from the perf side band only, and it is not in use")
	}
	return raw.Open(r.Instance, raw.Options{
		LiveOptions: binary.LiveOptions{
			Options: binary.Options{Events: r.Events, NoTemplates: true, NoText: r.NoText, Spare: r.Spare},
			Pause:   pump.HoldPause, Pace: r.Pace, Patience: r.Patience,
		},
		Events:  r.Enabled,
		Names:   r.Tasks,
		Symbols: r.Symbols,
		Room:    r.Room,
		Grown:   r.Grown,
	})
}

// Name implements source.Source.
func (l *live) Name() string { return Name }

// Exact implements source.Source.
func (l *live) Exact() bool { return true }

// Size implements source.Source.
func (l *live) Size() int64 { return l.Bytes() }

// Interrupt implements source.Source.
func (l *live) Interrupt() error { return l.Close() }
