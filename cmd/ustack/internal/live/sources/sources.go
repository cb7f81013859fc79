// Package sources lists the ways to read the records of an instance.
package sources

import (
	"fmt"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/live/source/perfring"
	"ustack/cmd/ustack/internal/live/source/pipe"
	"ustack/cmd/ustack/internal/live/source/ring"
)

// Values of --source that the engine knows: the first of All that opens, the ring
// buffer, the kernel's text, and rings of perf in place of an instance.
const (
	Auto   = "auto"
	Binary = ring.Name
	Text   = pipe.Name
	Perf   = perfring.Name
)

// All returns the kinds, the best one first. Auto takes none that are Alone.
func All() []source.Kind {
	return []source.Kind{
		ring.Kind(),
		pipe.Kind(),
		perfring.Kind(),
	}
}

// Names returns the values of --source.
func Names() []string {
	names := []string{Auto}
	for _, k := range All() {
		names = append(names, k.Name)
	}
	return names
}

// Open opens the source of a name, or the best one that opens.
func Open(name string, r *source.Request) (s source.Source, err error) {
	err = fmt.Errorf("unknown source %q", name)
	for _, k := range All() {
		if name != k.Name && (name != Auto || k.Alone) {
			continue
		}
		if s, err = k.Open(r); err == nil {
			return s, nil
		}
	}
	return nil, err
}
