//go:build device

package openfile

import "syscall"

// KeepsMapped is false: a Begin keeps nothing of the files that are mapped.
const KeepsMapped = false

// mappedFiles are not kept on a device.
type mappedFiles struct{}

func (mappedFiles) begin() {}

// News returns 0: nothing is kept.
func (*Begin) News() uint64 { return 0 }

func (*Begin) isMapped(path, id string, st *syscall.Stat_t) (doubted func() bool, ok bool) {
	return nil, false
}

// staysMapped refuses all files: that no process maps another one is not known.
func (*Begin) staysMapped(path, id string, st *syscall.Stat_t, same, unchanged func() bool) (doubted func() bool, ok bool) {
	return nil, false
}
