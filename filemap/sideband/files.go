package sideband

import (
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// Files takes the build IDs of files that are written while they are mapped, for spaces that
// are kept up without a side band. It is for one goroutine.
type Files struct {
	files     watchedFiles
	completer completer
}

// NewFiles returns Files. The clock is that of the times of the spaces. forget has others forget
// the build ID of a file, and to gets what is known of the files that are mapped; both may be nil.
func NewFiles(spaces *space.Spaces, reader *procmap.Reader, clock int32, watcher FileWatcher, reported *Written, forget func(procmap.FileID), to *openfile.Begin) *Files {
	f := &Files{completer: completer{reader: reader, wall: wallClock{clock: clock}, mounts: watchMounts(clock)}}
	f.files = watchedFiles{history: newHistory(spaces), clock: clock, completer: &f.completer,
		watcher: watcher, reported: reported, forget: forget, proof: newProof(to)}
	// What a process has changed that counts as its program is not known.
	f.files.freshFiles.moved = func(int) bool { return true }
	return f
}

// Watch watches the file of a mapping that a process has since a time. It takes the build ID from
// a mapping that there is no room to watch.
func (f *Files) Watch(pid int, m *procmap.Mapping, since tracefs.Time) {
	f.files.unsure(m)
	f.files.watch(pid, m, recordedFile{}, since)
}

// Check takes the build IDs from the files that were written since the last Check. All changes of
// mappings until a time are known.
func (f *Files) Check(known tracefs.Time) {
	f.completer.wall.look()
	f.files.proof.check(known, f.files.had)
	f.files.findUnheld(known)
	f.files.settleFresh(known)
	f.files.settleSuspects(known)
	f.files.checkWritten(known)
}

// Close releases the files.
func (f *Files) Close() {
	f.files.stamps.close()
	f.completer.mounts.close()
}
