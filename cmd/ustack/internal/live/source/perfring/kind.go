// Package perfring records with perf: its rings in place of an instance of ftrace, for those
// who may not write to tracefs.
package perfring

import (
	"errors"

	"ustack/cmd/ustack/internal/live/source"
)

// Name is the value of --source.
const Name = "perf"

// Kind returns the source.
func Kind() source.Kind {
	return source.Kind{Name: Name, Help: help, Alone: true, Open: func(r *source.Request) (source.Source, error) {
		if r.Recorder == nil {
			return nil, errors.New("--source=perf: it reads no instance of ftrace")
		}
		return r.Recorder.Open(r)
	}}
}
