package text

import (
	"bytes"

	"ustack/tracefs"
)

const (
	// UnresolvedMark stands between a frame that ustack could not resolve
	// and the reason, which a ')' ends. Reading our own output again must
	// know it.
	UnresolvedMark = " (unresolved: "
	// CutMark ends a frame that the kernel has cut, in text that is escaped: the
	// reason is filemap.Truncated.
	CutMark = UnresolvedMark + "truncated)"
	// FileMark stands between the number of a frame, or the name that ustack has
	// put after that, and the file. Names are written so that they do not contain
	// it: the first one counts.
	FileMark = " : path="
	// InferredMark ends the name of a function that is on the stack although
	// the kernel did not see it.
	InferredMark = " (inferred)"
	// WordsMark and HexMark begin the build ID after a path, as the kernel
	// writes it and as readelf does.
	WordsMark = " build_id={"
	HexMark   = " [build_id="
)

// FileMarks stand before FileMark, after the name of a function if there is one,
// where an earlier run was not sure of the file.
var FileMarks = [...]string{tracefs.NoMark: "", tracefs.MarkLate: " (late)", tracefs.MarkClaimed: " (claimed)", tracefs.MarkInferred: " (by exclusion)"}

// parseFrame reads a frame line (without its line feed) at text[off:end].
func parseFrame(text []byte, off, end int) (tracefs.Frame, bool) {
	line := text[off:end]
	f := tracefs.Frame{Off: uint32(off), End: uint32(end), AddrEnd: uint32(end)}
	if !hasPrefix(line, Arrow) {
		return f, false
	}
	if len(line) == plainLine {
		if addr, ok := plainAddress(line); ok {
			f.Form, f.Addr, f.HasAddr = tracefs.FormPlain, addr, true
			return f, true
		}
	}
	if at := bytes.LastIndex(line, []byte(UnresolvedMark)); at > 0 && line[len(line)-1] == ')' {
		f.Form = tracefs.FormUnresolved
		f.AddrEnd = uint32(off + at)
		return f, true
	}
	rest := line[len(Arrow):]
	if n := angleAddress(rest); n > 0 {
		f.AddrEnd = uint32(off + len(Arrow) + n)
		if f.Form, f.ID = parseSuffix(rest[n:]); f.Form == tracefs.FormUnknown {
			if name := nameEnd(rest[n:]); name > 0 {
				f.Form = tracefs.FormResolved
				f.AddrEnd += uint32(name)
				var function []byte
				var mark tracefs.Mark
				function, mark = cutFileMark(rest[n : n+name])
				f.SetMark(mark)
				f.SetInferred(bytes.HasSuffix(function, []byte(InferredMark)))
			}
		}
		return f, true
	}
	if at := objectEnd(rest); at > 0 {
		f.AddrEnd = uint32(off + len(Arrow) + at)
		f.Form = tracefs.FormObject
		return f, true
	}
	f.Form = tracefs.FormUnknown
	return f, true
}

// angleAddress returns the length of " <HEX>" at the beginning of b, 0 if there
// is none. Addresses have 16 digits, 8 on 32-bit kernels.
func angleAddress(b []byte) int {
	if len(b) < 4 || b[0] != ' ' || b[1] != '<' {
		return 0
	}
	_, n := parseHex(b[2:])
	if n == 0 || 2+n >= len(b) || b[2+n] != '>' {
		return 0
	}
	return n + 3
}

// parseSuffix reads the text after a frame's address.
func parseSuffix(b []byte) (tracefs.Form, tracefs.Identifier) {
	var none tracefs.Identifier
	switch {
	case len(b) == 0:
		return tracefs.FormPlain, none
	case hasPrefix(b, FileMark):
		return tracefs.FormResolved, none
	case hasPrefix(b, " : 0x"):
		if v, n := parseHex(b[5:]); n > 0 && 5+n == len(b) {
			return tracefs.FormIdentifier, tracefs.HashIdentifier(v)
		}
	case hasPrefix(b, " : "):
		if id, ok := parseInode(b[3:]); ok {
			return tracefs.FormIdentifier, id
		}
	}
	return tracefs.FormUnknown, none
}

// cutFileMark removes the mark before a file.
func cutFileMark(name []byte) ([]byte, tracefs.Mark) {
	for m := tracefs.MarkLate; int(m) < len(FileMarks); m++ {
		if function, ok := bytes.CutSuffix(name, []byte(FileMarks[m])); ok {
			return function, m
		}
	}
	return name, tracefs.NoMark
}

// nameEnd returns how long the name of a function is that ustack has put
// between number and file, " work+0x1c work.c:33", 0 if there is none.
func nameEnd(b []byte) int {
	if len(b) < 2 || b[0] != ' ' || b[1] == ' ' || b[1] == ':' {
		return 0
	}
	return max(bytes.Index(b, []byte(FileMark)), 0)
}

// parseInode reads "%ld : %d:%d", inode and device of D2 and D3.
func parseInode(b []byte) (tracefs.Identifier, bool) {
	b, negative := bytes.CutPrefix(b, []byte("-"))
	inode, n := parseDec(b)
	if n == 0 || !hasPrefix(b[n:], " : ") {
		return tracefs.Identifier{}, false
	}
	if negative {
		inode = -inode
	}
	major, minor, n := parseDevice(b[n+3:], len(b)-n-3)
	return tracefs.InodeIdentifier(inode, major, minor), n > 0
}

// parseDevice reads "MAJ:MIN" in decimal, as long as want bytes.
func parseDevice(b []byte, want int) (major, minor uint32, n int) {
	ma, i := parseDec(b)
	if i == 0 || i >= len(b) || b[i] != ':' {
		return 0, 0, 0
	}
	mi, j := parseDec(b[i+1:])
	if j == 0 || i+1+j != want || ma > 1<<29 || mi > 1<<32-1 {
		return 0, 0, 0
	}
	return uint32(ma), uint32(mi), i + 1 + j
}

// objectEnd returns where "PATH[+0xHEX]" (option sym-userobj, with sym-addr
// followed by " <HEX>") ends, 0 if b is not of that form. A path may hold
// anything, so the last "[+0x" counts.
func objectEnd(b []byte) int {
	if len(b) == 0 || b[len(b)-1] != ']' {
		at := bytes.LastIndex(b, []byte("] <"))
		if at < 0 || angleAddress(b[at+1:]) != len(b)-at-1 {
			return 0
		}
		b = b[:at+1]
	}
	at := bytes.LastIndex(b, []byte(ObjectMark))
	if at <= 0 {
		return 0
	}
	if _, n := parseHex(b[at+len(ObjectMark):]); n == 0 || at+len(ObjectMark)+n+1 != len(b) {
		return 0
	}
	return len(b)
}

// Object returns the name of the file that a sym-userobj frame carries, and the offset
// in the VMA.
func Object(addrText []byte) (name string, offset uint64) {
	at := bytes.LastIndex(addrText, []byte(ObjectMark))
	return string(bytes.TrimPrefix(addrText[:max(at, 0)], []byte(Arrow))), ObjectOffset(addrText)
}

// ObjectOffset returns the offset in the VMA that a sym-userobj frame carries.
func ObjectOffset(addrText []byte) uint64 {
	v, _ := parseHex(addrText[bytes.LastIndex(addrText, []byte(ObjectMark))+len(ObjectMark):])
	return v
}
