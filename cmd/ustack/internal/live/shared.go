package live

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// SharedFile returns the file of shared memory at an address, "" for private memory.
// Mappings of data are not reported: the process is read, if it still runs.
func (p *Processes) SharedFile(tid int32, _ tracefs.Time, _ bool, addr uint64) (id, path string, offset uint64, ok bool) {
	pid, ok := p.Process(tid)
	if !ok {
		return "", "", 0, false
	}
	at, there, ok := p.follow.at(int(pid), addr)
	if !ok {
		return "", "", 0, false
	}
	if at.Perms&procmap.Shared == 0 {
		return "", "", 0, true
	}
	if id, ok = p.follow.fileID(int(pid), &at, there); !ok {
		return "", "", 0, false
	}
	return id, at.Name, at.FileOffset(addr), true
}

// fileID returns what no other file has than the one that a process has mapped, as far as
// the kernel shows it. Device and inode are not enough: segments of shmget(2) have the
// same ones in each IPC namespace, so have files of several subvolumes of btrfs, and a file
// that is made when another one has been removed. The kernel's handle of a file is: it
// has a generation. ok is false if it cannot be had, because the process has gone, say.
func (fl *following) fileID(pid int, m *procmap.Mapping, there bool) (id string, ok bool) {
	plain := fmt.Sprintf("%s:%d", m.Dev, m.Inode)
	if !there {
		return "", false
	}
	h, err := fl.handle(pid, m)
	if err == nil {
		return fmt.Sprintf("%s:%x:%x", plain, h.Type(), h.Bytes()), true
	}
	// A file system without handles, an old kernel, or no right to see them.
	without := errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EOVERFLOW) || errors.Is(err, unix.ENOSYS) || errors.Is(err, fs.ErrPermission)
	return plain, without && m.Kind != procmap.SysV
}

// handleFID is AT_HANDLE_FID (Linux 6.5): a handle that need not be good for opening the
// file, which all file systems have.
const handleFID = 0x200

// handleWait is how long the kernel may take for a handle. It waits for a process in the
// middle of an exec.
const handleWait = 250 * time.Millisecond

// handle returns the kernel's handle of the file that a process has mapped.
func (fl *following) handle(pid int, m *procmap.Mapping) (unix.FileHandle, error) {
	type answer struct {
		h   unix.FileHandle
		err error
	}
	proc := fl.all.Proc()
	link := fmt.Sprintf("%s/%d/map_files/%x-%x", proc, pid, m.Start, m.End)
	got := make(chan answer, 1)
	if fl.calls == nil {
		fl.calls = bounded.New(handleWait)
	}
	err := fl.calls.Do(func() {
		defer privilege.RaiseIn(proc).Lower()
		var a answer
		a.h, _, a.err = unix.NameToHandleAt(unix.AT_FDCWD, link, unix.AT_SYMLINK_FOLLOW|handleFID)
		if errors.Is(a.err, unix.EINVAL) {
			a.h, _, a.err = unix.NameToHandleAt(unix.AT_FDCWD, link, unix.AT_SYMLINK_FOLLOW)
		}
		got <- a
	})
	if err != nil {
		return unix.FileHandle{}, fmt.Errorf("asking for the file at %#x of process %d: %w", m.Start, pid, err)
	}
	a := <-got
	return a.h, a.err
}
