package render

import (
	"archive/tar"
	"fmt"
	"io"
	"strconv"
	"time"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs/text"
)

// MapsDump writes mappings as a dump that replay --maps reads: a tar archive
// with a file PID.maps for each process (see procmap.Head) and tids.txt.
type MapsDump struct {
	tar  *tar.Writer
	now  time.Time
	buf  []byte
	tids []byte
}

// NewMapsDump returns a dump on w. The files in it get this time.
func NewMapsDump(w io.Writer, now time.Time) *MapsDump {
	return &MapsDump{tar: tar.NewWriter(w), now: now}
}

// Process writes the mappings of a process.
func (d *MapsDump) Process(head procmap.Head, mappings []procmap.Mapping) error {
	d.buf = AppendMapsVersion(d.buf[:0], head, mappings)
	return d.Versions(head.PID, d.buf)
}

// Versions writes the versions of a process's mappings, the oldest first.
func (d *MapsDump) Versions(pid int, versions []byte) error {
	return d.file(strconv.Itoa(pid)+".maps", append([]byte(text.Head), versions...))
}

// AppendMapsVersion appends a version of a process's mappings, as dumps have it.
func AppendMapsVersion(b []byte, head procmap.Head, mappings []procmap.Mapping) []byte {
	b = append(head.Append(b), '\n')
	ids := idsOf(mappings)
	for i := range mappings {
		m := &mappings[i]
		b = m.AppendOtherVDSO(append(m.AppendSaved(b), '\n'))
		id := procmap.FileID{Dev: m.Dev, Inode: m.Inode}
		if known := ids[id]; !known.IsZero() {
			b = append(procmap.AppendBuildID(b, id, known), '\n')
			delete(ids, id)
		}
	}
	return b
}

// idsOf are the build IDs of files. A device and inode number that mappings with different
// IDs have, as on overlayfs, is no one file, and has none.
func idsOf(mappings []procmap.Mapping) map[procmap.FileID]elfid.ID {
	ids := make(map[procmap.FileID]elfid.ID)
	for i := range mappings {
		m := &mappings[i]
		file := procmap.FileID{Dev: m.Dev, Inode: m.Inode}
		if known, ok := ids[file]; ok && known != m.BuildID {
			ids[file] = elfid.ID{}
			continue
		}
		ids[file] = m.BuildID
	}
	return ids
}

// Threads notes which threads a process has.
func (d *MapsDump) Threads(pid int, tids []int) {
	for _, tid := range tids {
		d.tids = fmt.Appendf(d.tids, "%d %d\n", tid, pid)
	}
}

// VDSO notes the build ID of the kernel's vDSO.
func (d *MapsDump) VDSO(id elfid.ID) error { return d.file("vdso.txt", []byte(id.Hex()+"\n")) }

// Close writes the threads and ends the archive.
func (d *MapsDump) Close() error {
	if err := d.file("tids.txt", d.tids); err != nil {
		return err
	}
	if err := d.tar.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	return nil
}

func (d *MapsDump) file(name string, content []byte) error {
	const readable = 0o644
	err := d.tar.WriteHeader(&tar.Header{Name: name, Mode: readable, Size: int64(len(content)), ModTime: d.now, Format: tar.FormatUSTAR})
	if err == nil {
		_, err = d.tar.Write(content)
	}
	if err != nil {
		return fmt.Errorf("writing %s to the archive: %w", name, err)
	}
	return nil
}
