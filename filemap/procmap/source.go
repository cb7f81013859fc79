package procmap

import "fmt"

// Source is the interface of the kernel that mappings are read from.
type Source uint8

const (
	// Auto takes the ioctl where the kernel has it, else the text.
	Auto Source = iota
	// Ioctl is PROCMAP_QUERY, in kernels from 6.11 on.
	Ioctl
	// Text is the text of /proc/PID/maps.
	Text
)

// String returns the word that ParseSource reads.
func (s Source) String() string { return [...]string{"auto", "ioctl", "text"}[s] }

// ParseSource reads the value of --maps-source.
func ParseSource(word string) (Source, error) {
	for s := Auto; s <= Text; s++ {
		if s.String() == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("unknown source of mappings %q (one of auto, ioctl, text)", word)
}

// Filter selects mappings.
type Filter struct {
	// Perms are permissions that a mapping must have, all of them.
	Perms Perms
	// Files leaves out memory without a file.
	Files bool
}

// match applies the filter as the ioctl does (pick_vma in
// fs/proc/task_mmu.c): FileBacked means that the VMA has a file, which the text
// shows by its inode.
func (f Filter) match(m *Mapping) bool {
	return m.Perms&f.Perms == f.Perms && (!f.Files || m.Inode != 0)
}

func (f Filter) flags() uint64 {
	flags := uint64(f.Perms)
	if f.Files {
		flags |= fileBacked
	}
	return flags
}
