package procmap

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"ustack/filemap/elfid"
	"ustack/tracefs/escape"
)

// A dump of mappings is a tar archive, or a directory, with a file PID.maps for
// each process, which holds one or more versions of its mappings, the oldest
// first:
//
//	# ustack: escaped=1
//	### t=58.193790543 pid=2843 comm=bash exe=/usr/bin/bash
//	5617…000-5617…000 r-xp 0002f000 fe:00 26       /usr/bin/bash
//	# fe:00 26 build_id=2f7c…
//	…
//	# read from=58.193790543 until=61.020034511 every=0.016000000
//
// The first line says that names are as package escape writes them. Without it
// they are as /proc/PID/maps has them, which escapes line feeds but no backslash
// (a poller wrote the file, or an older ustack); those in heads are escaped in any
// case. A line with three number signs begins a version, one with a single number
// sign gives the build ID of the file with this device and inode, after the
// first mapping of that file in the version, or that the mapping before it is of another
// vDSO than that of 64-bit programs, or when the process was read again and still had that
// version (Reads); all others are lines of /proc/PID/maps. Besides,
// tids.txt has a line "TID PID" for each thread, and vdso.txt the build ID of the
// kernel's vDSO.

// Head begins a version of a process's mappings in a dump.
type Head struct {
	// Time is when the mappings were read, nanoseconds of CLOCK_MONOTONIC.
	Time int64
	PID  int
	Comm string
	// Exe is the path of the program, "" if unknown.
	Exe string
}

const headMark = "### t="

// Append appends the line, without its line feed. Names are as package escape
// writes them, and '=' in the comm is escaped, too, so that it ends where " exe="
// begins.
func (h Head) Append(b []byte) []byte {
	b = append(b, headMark...)
	b = fmt.Appendf(b, "%d.%09d pid=%d comm=", h.Time/1e9, h.Time%1e9, h.PID)
	for i, part := range strings.Split(h.Comm, "=") {
		if i > 0 {
			b = escape.AppendByte(b, '=')
		}
		b = escape.Append(b, []byte(part))
	}
	return escape.Append(append(b, " exe="...), []byte(h.Exe))
}

// ParseHead reads the line that begins a version.
func ParseHead(line []byte) (Head, error) {
	bad := func(what string) (Head, error) {
		return Head{}, fmt.Errorf("the head of a process's mappings has no %s: %q", what, line[:min(len(line), 100)])
	}
	rest, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte(headMark))
	if !ok {
		return bad("time")
	}
	stamp, rest, _ := bytes.Cut(rest, []byte(" pid="))
	t, ok := parseSeconds(string(stamp))
	if !ok {
		return bad("time")
	}
	pid, rest, ok := bytes.Cut(rest, []byte(" comm="))
	n, good := number(pid)
	if !ok || !good {
		return bad("process")
	}
	comm, exe, ok := bytes.Cut(rest, []byte(" exe="))
	if !ok {
		return bad("program")
	}
	return Head{Time: t, PID: n, Comm: string(escape.Undo(comm)), Exe: string(escape.Undo(exe))}, nil
}

// parseSeconds reads seconds with up to nine decimals as nanoseconds.
func parseSeconds(s string) (int64, bool) {
	whole, part, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseUint(whole, 10, 33)
	if err != nil || len(part) > 9 {
		return 0, false
	}
	ns, ok := number([]byte((part + "000000000")[:9]))
	return int64(sec)*1e9 + int64(ns), ok
}

// AppendBuildID appends the line that gives a file's build ID, without its line
// feed.
func AppendBuildID(b []byte, file FileID, id elfid.ID) []byte {
	b = append(b, "# "...)
	b = file.Dev.Append(b)
	b = append(b, ' ')
	b = strconv.AppendUint(b, file.Inode, 10)
	b = append(b, " build_id="...)
	return id.AppendHex(b)
}

// ParseBuildID reads the line that gives a file's build ID. ok is false for any
// other line.
func ParseBuildID(line []byte) (file FileID, id elfid.ID, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte("# "))
	if !ok {
		return file, id, false
	}
	p := fields{rest: rest, ok: true}
	file.Dev.Major, file.Dev.Minor = p.hex32(':'), p.hex32(' ')
	file.Inode = p.decimal()
	digits, found := bytes.CutPrefix(p.rest, []byte(" build_id="))
	if !p.ok || !found {
		return FileID{}, id, false
	}
	id, ok = elfid.Parse(digits)
	return file, id, ok
}
