package unfiled

import (
	"fmt"
	"io/fs"
	"os"

	"ustack/tracefs"
)

// Folder has the perf maps of processes of another time or machine,
// perf-PID.map. That they are of the traced processes is for the user to know.
type Folder struct {
	root *os.Root
	shelf
}

// OpenFolder opens a folder.
func OpenFolder(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of perf maps: %w", err)
	}
	return &Folder{root: root, shelf: newShelf()}, nil
}

// Close closes the folder. What was read stays.
func (f *Folder) Close() error { return f.root.Close() }

// find implements maps.
func (f *Folder) find(p Program, _ tracefs.Time) *perfMap {
	if s, ok := f.take(p.PID); ok {
		return s.perf
	}
	s := new(slot)
	_ = s.update(f.root, mapName(p.PID), func(fs.FileInfo) error { return nil })
	f.put(p.PID, s)
	return s.perf
}

// mapName is how a program that is a process of this number calls its map.
func mapName(pid int) string { return fmt.Sprintf("perf-%d.map", pid) }
