package anoncode

import (
	"fmt"
	"io/fs"
	"os"

	"ustack/tracefs"
)

// Directory has the perf maps of processes of another time or machine,
// perf-PID.map. The user vouches that they are of the traced processes.
type Directory struct {
	root *os.Root
	shelf
}

// OpenDirectory opens a directory.
func OpenDirectory(dir string) (*Directory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of perf maps: %w", err)
	}
	return &Directory{root: root, shelf: newShelf()}, nil
}

// Close closes the directory. Maps that were read stay.
func (f *Directory) Close() error { return f.root.Close() }

// find implements maps.
func (f *Directory) find(p Program, _ tracefs.Time) *perfMap {
	if s, ok := f.take(p.PID); ok {
		return s.perf
	}
	s := new(slot)
	_ = s.update(f.root, mapName(p.PID), func(fs.FileInfo) error { return nil })
	if s.perf != nil {
		s.perf.done(0, -1<<62) // old lines cannot be distinguished from new ones: the last one counts
	}
	f.put(p.PID, s)
	return s.perf
}

// mapName returns how a program that is a process of this number calls its map.
func mapName(pid int) string { return fmt.Sprintf("perf-%d.map", pid) }
