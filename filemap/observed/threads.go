package observed

import (
	"strconv"

	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/tracefs"
)

// Process is the process of a thread, as the dump has it.
func (d *Dump) Process(tid int32) (pid int32, ok bool) {
	if pid, ok = d.tids[tid]; ok {
		return pid, true
	}
	_, ok = d.spaces[tid]
	return tid, ok
}

// ofProcess is a thread by whose number the dump has the process of one: the process itself
// if the dump does not list the thread, or if the trace says that it is of another process than
// in the dump, as numbers are used again.
func (d *Dump) ofProcess(tid, tgid int32) int32 {
	if pid, _ := d.Process(tid); len(d.spaces[pid]) == 0 || tgid > 0 && pid != tgid {
		return tgid
	}
	return tid
}

// SharedFile is the file that a thread's process had mapped shared at an
// address: its device and inode, which make it the same file in all processes,
// its path, and where in it the address is. timed means that at is nanoseconds.
// ok is false if no mapping of the address is known, and of segments of shmget(2), which
// have the same numbers in each IPC namespace; the id is empty if the mapping is not
// shared.
func (d *Dump) SharedFile(tid int32, at tracefs.Time, timed bool, addr uint64) (id, path string, offset uint64, ok bool) {
	versions, _ := d.near(tid, at, timed)
	a := proof.Address{Addr: addr}
	found := mappingIn(versions, &a)
	switch {
	case !a.Found(), found.shared && found.kind == procmap.SysV:
		return "", "", 0, false
	case !found.shared || found.file == nil:
		return "", "", 0, true
	}
	key := found.file.key
	return key.dev.String() + " " + strconv.FormatUint(key.inode, 10), found.file.name, addr - found.start + found.offset, true
}
