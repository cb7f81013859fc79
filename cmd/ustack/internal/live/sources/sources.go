// Package sources lists the ways to read the records of an instance.
package sources

import (
	"fmt"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/live/source/pipe"
	"ustack/cmd/ustack/internal/live/source/ring"
)

// Values of --source that the engine knows: the first of All that opens, the ring
// buffer, and the kernel's text.
const (
	Auto   = "auto"
	Binary = ring.Name
	Text   = pipe.Name
)

// All returns the kinds, the best one first.
func All() []source.Kind {
	return []source.Kind{
		ring.Kind(),
		pipe.Kind(),
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
		if name != Auto && name != k.Name {
			continue
		}
		if s, err = k.Open(r); err == nil {
			return s, nil
		}
	}
	return nil, err
}
