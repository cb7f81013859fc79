package image

import (
	"bytes"
	"strings"
)

// maxLink bounds a section that names another file: a path and a few bytes.
const maxLink = 4096 + 64

// DebugLink returns the name and CRC-32 of the file with the debug information of
// this one (.gnu_debuglink), "" if it names none. The name has no directory.
func (x *Image) DebugLink() (name string, crc uint32) {
	b := x.link(".gnu_debuglink")
	end := bytes.IndexByte(b, 0)
	if end <= 0 {
		return "", 0
	}
	at := (end + 4) &^ 3
	name = string(b[:end])
	if at+4 > len(b) || strings.ContainsRune(name, '/') || name == "." || name == ".." {
		return "", 0
	}
	return name, x.Order.Uint32(b[at:])
}

// AltLink returns the path and build ID of the file to which dwz has moved what
// several files have in common (.gnu_debugaltlink), "" if there is none.
func (x *Image) AltLink() (path string, id []byte) {
	b := x.link(".gnu_debugaltlink")
	end := bytes.IndexByte(b, 0)
	if end <= 0 {
		return "", nil
	}
	return string(b[:end]), b[end+1:]
}

func (x *Image) link(name string) []byte {
	s := x.Section(name)
	if s == nil {
		return nil
	}
	b, err := x.raw(s, maxLink)
	if err != nil {
		return nil
	}
	return b
}

// NoteID returns the build ID in the section that is named after it, for files
// of debug information that are neither programs nor libraries; nil if there is
// none.
func (x *Image) NoteID() []byte {
	const head, gnu = 12, "GNU\x00"
	b := x.link(".note.gnu.build-id")
	if len(b) < head+len(gnu) || x.Order.Uint32(b) != uint32(len(gnu)) || string(b[head:head+len(gnu)]) != gnu {
		return nil
	}
	size := uint64(x.Order.Uint32(b[4:]))
	if b = b[head+len(gnu):]; size > uint64(len(b)) {
		return nil
	}
	return b[:size]
}
