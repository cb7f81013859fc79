package procmap

import (
	"path/filepath"
	"slices"
)

// Family returns the processes pids with all below them that run now: their children,
// the children of those, and so on, in order of their PIDs. Not in it are the children
// of a process that has ended: they have another parent since (man 2 PR_SET_CHILD_SUBREAPER).
func (r *Reader) Family(pids []int) ([]int, error) {
	all, err := r.PIDs()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, pid := range all {
		if s, err := r.stat(pid); err == nil { // else it has ended
			children[s.Parent] = append(children[s.Parent], pid)
		}
	}
	family := slices.Clone(pids)
	seen := make(map[int]bool)
	for i := 0; i < len(family); i++ {
		if pid := family[i]; !seen[pid] {
			seen[pid] = true
			family = append(family, children[pid]...)
		}
	}
	slices.Sort(family)
	return slices.Compact(family), nil
}

// Named returns the processes that match takes for their name in the kernel, at most 15
// bytes, or for the name of the file that they run, in order of their PIDs. Kernel
// threads and zombies are not among them.
func (r *Reader) Named(match func(name string) bool) ([]int, error) {
	all, err := r.PIDs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(pid int) bool {
		s, err := r.stat(pid)
		if err != nil || !s.hadMemory() {
			return true
		}
		exe := r.Exe(pid)
		return !match(s.Comm) && (exe == "" || !match(filepath.Base(exe)))
	}), nil
}
