package saved

import (
	"os"
	"sync/atomic"
	"time"

	"ustack/filemap/anoncode"
	"ustack/filemap/elfid"
	"ustack/filemap/perfstack"
	"ustack/filemap/sideband"
	"ustack/tracefs"
	"ustack/tracefs/perfdata"
)

// copies finds the frames of stacks that perf has copied, once the mappings in its file are
// known. Any goroutine may ask.
type copies struct {
	unwinder atomic.Pointer[perfstack.Unwinder]
}

// unwind returns the frames of a copy, none before the mappings are known.
func (c *copies) unwind(of *perfdata.Copy) []tracefs.Frame {
	if u := c.unwinder.Load(); u != nil {
		return u.Unwind(of)
	}
	return nil
}

func (c *copies) close() {
	if u := c.unwinder.Load(); u != nil {
		u.Close()
	}
}

// open begins with the mappings of a file, which was read under a name.
func (c *copies) open(f *perfdata.File, name string, rec *sideband.Recorded) {
	if !f.Copies() {
		return
	}
	opt := perfstack.Options{Arch: f.Arch, Space: rec.History.Spaces.Space, BuildID: rec.BuildID, Generation: rec.Generation, Written: writtenAt(name)}
	if own, err := anoncode.OwnVDSO(); err == nil && sameVDSO(f, own.ID()) {
		if memory, err := anoncode.VDSOMemory(); err == nil {
			opt.VDSO = memory
		}
	}
	c.unwinder.Store(perfstack.New(opt))
}

// writtenAt returns when a file was written last, zero if it is none.
func writtenAt(name string) time.Time {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}

// sameVDSO reports whether a build ID is the one of the vDSO in the list of a file.
func sameVDSO(f *perfdata.File, own elfid.ID) bool {
	for i := range f.BuildIDs {
		if id, ok := elfid.New(f.BuildIDs[i].ID); ok && f.BuildIDs[i].Name == "[vdso]" {
			return id == own
		}
	}
	return false
}
