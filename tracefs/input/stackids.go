package input

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ustack/tracefs/stackid"
	"ustack/tracefs/stackmap"
)

// stackMaps are the names of maps of kernel stacks that are saved beside a trace, the one with
// names of functions first.
var stackMaps = [...]string{"stack_map", "stack_map_bin"}

// useStackMap has kernel stacks of a text put in place of their numbers, if a map of them was
// saved beside it. What is wrong with the map is a remark, and the lines stay as they are.
func (in *File) useStackMap(name string) error {
	if !stackmap.Supported || in.pages != nil || in.perf != nil || in.stacks != nil || in.instances != nil || in.again == nil {
		return nil
	}
	for _, base := range stackMaps {
		path := filepath.Join(filepath.Dir(name), base)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		return in.expand(name, path)
	}
	return nil
}

// expand uses a map.
func (in *File) expand(name, path string) error {
	uses, err := countStacks(name)
	if err != nil || len(uses) == 0 {
		return err
	}
	m, err := readStackMap(path, uses)
	if err != nil {
		in.note = fmt.Sprintf("kernel stacks stay numbers: %v", err)
		return nil
	}
	in.r, in.expanded = stackid.NewReader(in.r, m), true
	in.note = fmt.Sprintf("%d kernel stacks by their numbers are from %s", len(uses), path)
	return nil
}

// countStacks counts the numbers of stacks in a trace.
func countStacks(name string) (stackid.Uses, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening a trace: %w", err)
	}
	in, err := open(name, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	in.close = append(in.close, f.Close)
	uses := stackid.Count(in)
	return uses, in.Close()
}

// readStackMap reads a map that must be that of the trace.
func readStackMap(path string, uses stackid.Uses) (*stackid.Map, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening a map of kernel stacks: %w", err)
	}
	defer f.Close()
	m, err := stackid.Read(f, uses)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := m.Fits(); err != nil {
		return nil, fmt.Errorf("%s is not a map of this trace, or was saved before it ended: %w", path, err)
	}
	return m, nil
}

// Notes are remarks about the input, for when it is read.
func (s *Source) Notes() []string {
	if s.in.note == "" {
		return nil
	}
	return []string{s.in.note}
}
