package procmap

import (
	"strconv"
	"strings"

	"ustack/filemap/elfid"
	"ustack/tracefs/escape"
)

// Perms are the permissions of a mapping. The bits are the ioctl's
// (PROCMAP_QUERY_VMA_* in include/uapi/linux/fs.h).
type Perms uint8

const (
	Read   Perms = 1 << iota // PROCMAP_QUERY_VMA_READABLE
	Write                    // PROCMAP_QUERY_VMA_WRITABLE
	Exec                     // PROCMAP_QUERY_VMA_EXECUTABLE
	Shared                   // PROCMAP_QUERY_VMA_SHARED
)

// Append appends the four letters of /proc/PID/maps, "r-xp".
func (p Perms) Append(b []byte) []byte {
	b = append(b, "---p"...)
	letters := b[len(b)-4:]
	if p&Read != 0 {
		letters[0] = 'r'
	}
	if p&Write != 0 {
		letters[1] = 'w'
	}
	if p&Exec != 0 {
		letters[2] = 'x'
	}
	if p&Shared != 0 {
		letters[3] = 's'
	}
	return b
}

// String returns the four letters of /proc/PID/maps, "r-xp".
func (p Perms) String() string { return string(p.Append(nil)) }

// Dev is the device of a file system as /proc/PID/maps shows it: of the super
// block. stat(2) shows another one on btrfs and sometimes on overlayfs.
type Dev struct{ Major, Minor uint32 }

// Append appends the device in the form of /proc/PID/maps: hexadecimal, two
// digits or more, "fe:00".
func (d Dev) Append(b []byte) []byte {
	b = appendHex(b, uint64(d.Major), 2)
	b = append(b, ':')
	return appendHex(b, uint64(d.Minor), 2)
}

// String returns the device in the form of /proc/PID/maps, "fe:00".
func (d Dev) String() string { return string(d.Append(nil)) }

// Mapping is one mapping of a process, a VMA, as fs/proc/task_mmu.c prints it.
type Mapping struct {
	// Start and End are addresses; End is the first one after the mapping.
	Start, End uint64
	// Offset is where in the file Start is, 0 if there is no file.
	Offset uint64
	// Inode is 0 if there is no file.
	Inode uint64
	// Name is the path as the process sees it, or what the kernel calls the
	// memory ("[heap]"), or "". Bytes, not necessarily UTF-8, not escaped.
	Name string
	// BuildID is the file's, zero if it has none or it was not read.
	BuildID elfid.ID
	Perms   Perms
	Kind    Kind
	Dev     Dev
	// Generation counts how often the file of this device and inode was
	// replaced by another one since it was first seen (see IDs).
	Generation uint32
}

// FileOffset returns where in the file an address of the mapping is.
func (m *Mapping) FileOffset(addr uint64) uint64 { return addr - m.Start + m.Offset }

// Contains reports whether the address lies in the mapping.
func (m *Mapping) Contains(addr uint64) bool { return m.Start <= addr && addr < m.End }

// nameColumn is where the name begins in a line of /proc/PID/maps on 64 bits:
// 25 + 6*sizeof(void *) - 1, and a blank (show_vma_header_prefix).
const nameColumn = 73

// AppendText appends the mapping as a line of /proc/PID/maps, without the line
// feed at its end. Like the kernel it escapes line feeds in names, as \012,
// and nothing else.
func (m *Mapping) AppendText(b []byte) []byte {
	return append(m.appendColumns(b), strings.ReplaceAll(m.Name, "\n", `\012`)...)
}

// AppendSaved appends the mapping as AppendText does, with its name as package
// escape writes it: ParseSaved gives the very name back.
func (m *Mapping) AppendSaved(b []byte) []byte {
	return escape.Append(m.appendColumns(b), []byte(m.Name))
}

// appendColumns appends what stands before the name.
func (m *Mapping) appendColumns(b []byte) []byte {
	from := len(b)
	b = appendHex(b, m.Start, 8)
	b = append(b, '-')
	b = appendHex(b, m.End, 8)
	b = append(b, ' ')
	b = m.Perms.Append(b)
	b = append(b, ' ')
	b = appendHex(b, m.Offset, 8)
	b = append(b, ' ')
	b = m.Dev.Append(b)
	b = append(b, ' ')
	b = strconv.AppendUint(b, m.Inode, 10)
	b = append(b, ' ')
	if m.Name == "" {
		return b
	}
	for len(b)-from < nameColumn-1 {
		b = append(b, ' ')
	}
	return append(b, ' ')
}

// appendHex appends v with at least width digits (at most 16).
func appendHex(b []byte, v uint64, width int) []byte {
	for digit := width - 1; digit > 0 && v>>(4*digit) == 0; digit-- {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, v, 16)
}
