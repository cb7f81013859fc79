package text

import (
	"bytes"

	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// ParseMappingEvent reads the body of a whole mapping event, which is escaped,
// see parseMappingEvent.
func ParseMappingEvent(body []byte) tracefs.MappingEvent {
	return parseMappingEvent(body, mappingEventForm{whole: true, escaped: true})
}

// AppendMappingEvent appends the body of a mapping event, escaped, whose text is not,
// without its line feed. Where the event has no build ID, no path looks as if it did.
func AppendMappingEvent(b, body []byte, identified bool) []byte {
	at := bytes.Index(body, []byte(pathMark))
	if at < 0 || identified {
		return escape.Append(b, body)
	}
	at += len(pathMark)
	return AppendName(escape.Append(b, body[:at]), string(body[at:]))
}

const pathMark = " path="

// mappingEventForm is how the text of a mapping event is written.
type mappingEventForm struct {
	// whole: it ends with a line feed; one that does not may lack the end of
	// its path.
	whole   bool
	escaped bool
}

// parseMappingEvent reads the body of a mapping event, which may have several
// lines because a path may:
//
//	NAME: (inode|hash)=ID( dev=[MAJ:MIN])? path=PATH( build_id={W(,W)*})?
//
// A report has the device 0:MARK after a hash, which no file has.
//
// The kernel neither quotes nor escapes PATH, so the build ID is the last one
// that ends the record, and all before it is path. The result's slices point
// into body, or to a path that was escaped.
func parseMappingEvent(body []byte, form mappingEventForm) tracefs.MappingEvent {
	bad := func(why string) tracefs.MappingEvent { return tracefs.MappingEvent{Bad: why} }
	if !form.whole {
		return bad("cut off")
	}
	body = bytes.TrimSuffix(body, []byte("\n"))
	colon := bytes.IndexByte(body, ':')
	rest := bytes.TrimLeft(body[colon+1:], " ")
	// trace-cmd report pads the event's name, the kernel does not.
	report := len(body)-len(rest) > colon+2
	a, rest, ok := announcedIdentifier(rest)
	if !ok {
		return bad("no identifier")
	}
	path, ok := bytes.CutPrefix(rest, []byte(pathMark))
	if !ok {
		return bad("no path")
	}
	if Appended(path) {
		return bad("ends with a carriage return, or blanks")
	}
	if a.Path, a.BuildID = SplitFile(path); a.BuildID == nil && report {
		a.Path, a.BuildID = splitReportFile(path)
	}
	if form.escaped {
		a.Path = escape.Undo(a.Path)
	}
	if !usablePath(a.Path, form.escaped) {
		return bad("no usable path")
	}
	return a
}

// UsablePath refuses the text that a kernel writes when d_path failed (FORMATS
// 2.2): nothing, "(null)", an errno. Every name that stands for a file begins with
// '/', but for the bare name of named shared memory (captures README 5), so that
// is the only other form that is accepted: a name that prctl(2) would take.
func UsablePath(path []byte) bool { return usablePath(path, false) }

// MaxPath bounds the paths that ustack writes, so that each escaped can be read again:
// /proc/PID/maps has longer ones than PATH_MAX.
const MaxPath = 16 << 10

// UsableOwn is UsablePath for what ustack has written, where paths can be longer.
func UsableOwn(path []byte) bool { return usablePath(path, true) }

func usablePath(path []byte, own bool) bool {
	const pathMax = 4096 // PATH_MAX, and d_path's " (deleted)" within it
	if len(path) == 0 || path[0] == '(' || len(path) > MaxPath || !own && len(path) > pathMax {
		return false
	}
	if path[0] == '/' {
		return true
	}
	// PR_SET_VMA_ANON_NAME: at most 79 bytes of printable ASCII, none of these.
	if len(path) > 79 || bytes.ContainsAny(path, "\\`$[]") {
		return false
	}
	for _, c := range path {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// announcedIdentifier reads "hash=0x51eff94b", "hash=ffff8881007ed428",
// "inode=1340007 dev=[254:3]" and returns what follows.
func announcedIdentifier(b []byte) (a tracefs.MappingEvent, rest []byte, ok bool) {
	for _, k := range identifierKeys {
		if !hasPrefix(b, k.key) {
			continue
		}
		b = b[len(k.key):]
		digits, prefixed := bytes.CutPrefix(b, []byte("0x"))
		v, n := parseHex(digits)
		if d, m := parseDec(b); k.decimal && !prefixed && m >= n {
			v, n = d, m
		}
		if n == 0 {
			return a, b, false
		}
		rest = digits[n:]
		if dev, found := bytes.CutPrefix(rest, []byte(" dev=[")); found {
			end := bytes.IndexByte(dev, ']')
			if end < 0 {
				return a, rest, false
			}
			major, minor, m := parseDevice(dev, end)
			if m == 0 {
				return a, rest, false
			}
			rest = dev[end+1:]
			if k.inode {
				return tracefs.MappingEvent{ID: tracefs.InodeIdentifier(v, major, minor)}, rest, true
			}
			if major == 0 && int(minor) < tracefs.MarkCount {
				a.Report, a.Mark = true, tracefs.Mark(minor)
			}
		}
		a.ID = tracefs.HashIdentifier(v)
		return a, rest, true
	}
	return a, b, false
}

// SplitFile takes "PATH build_id={W,W,W,W,W}" apart, the form of the kernel and
// of resolved frames; buildID is what stands between the braces, nil if b does
// not end in a build ID: five words, or twenty bytes.
func SplitFile(b []byte) (path, buildID []byte) {
	at := bytes.LastIndex(b, []byte(WordsMark))
	if at < 0 || b[len(b)-1] != '}' {
		return b, nil
	}
	words := b[at+len(WordsMark) : len(b)-1]
	n := 0
	for w := range bytes.SplitSeq(words, []byte(",")) {
		digits, hex := bytes.CutPrefix(w, []byte("0x"))
		if _, m := parseHex(digits); !hex || m == 0 || m != len(digits) || m > 8 {
			return b, nil
		}
		n++
	}
	if n != 5 && n != 20 {
		return b, nil
	}
	return b[:at], words
}

// Appended reports whether another program may have appended to "PATH build_id={…}": it
// ends with a carriage return, or has blanks after the build ID, which would else be
// part of the path.
func Appended(b []byte) bool {
	short := bytes.TrimRight(b, " \t\r")
	if len(short) == len(b) || b[len(b)-1] == '\r' {
		return len(short) < len(b)
	}
	_, words := SplitFile(short)
	return words != nil
}

// splitReportFile reads the form of trace-cmd report, "PATH build_id=1 2 3 4 5":
// five words in decimal, blanks between.
func splitReportFile(b []byte) (path, buildID []byte) {
	const open = " build_id="
	at := bytes.LastIndex(b, []byte(open))
	if at < 0 {
		return b, nil
	}
	words := b[at+len(open):]
	n := 0
	for w := range bytes.SplitSeq(words, []byte(" ")) {
		if v, m := parseDec(w); m == 0 || m != len(w) || v >= 1<<32 {
			return b, nil
		}
		n++
	}
	if n != 5 {
		return b, nil
	}
	return b[:at], words
}

// isWhole reports whether a mapping event's first line is all of it: it ends
// in a build ID, and a path can hold a line feed only before that.
func isWhole(line []byte) bool {
	_, id := SplitFile(line)
	return id != nil
}
