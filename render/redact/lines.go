package redact

import (
	"bytes"
	"regexp"
	"time"

	"ustack/filemap"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// free takes lines without a head that are no frames: the rest of an event, and
// lines of a report's own.
func (g *grammar) free(p []byte) {
	for len(p) > 0 {
		var line []byte
		line, p = cutLine(p)
		txt, feed := cutFeed(line)
		switch {
		case text.FixedBody(txt): // of a stack
			g.out.keep(txt)
		case !g.report(txt):
			g.text(txt)
		}
		g.out.keep(feed)
	}
}

// note takes lines that are no record: comments, marks of loss.
func (g *grammar) note(p []byte) {
	for len(p) > 0 {
		var line []byte
		line, p = cutLine(p)
		txt, feed := cutFeed(line)
		switch {
		case g.report(txt):
		case g.harmless(txt):
			g.out.keep(txt)
		default:
			g.text(txt) // all of it: with tokens among its words it could pass for a record
		}
		g.out.keep(feed)
	}
}

// harmless reports whether a text has nothing but known words.
func (g *grammar) harmless(p []byte) bool {
	var found finder
	look := grammar{paths: g.paths, words: g.words, out: &found}
	look.known(p)
	return !found.secret
}

// finder is an out that only sees whether there is a secret.
type finder struct{ secret bool }

func (f *finder) keep([]byte)               {}
func (f *finder) text([]byte)               { f.secret = true }
func (f *finder) comm([]byte)               { f.secret = true }
func (f *finder) name([]byte)               { f.secret = true }
func (f *finder) path([]byte)               { f.secret = true }
func (f *finder) address([]byte, uint64)    { f.secret = true }
func (f *finder) narrow([]byte, uint64)     { f.secret = true }
func (f *finder) identifier([]byte, uint64) { f.secret = true }
func (f *finder) other([]byte, string)      { f.secret = true }

// known takes a text word by word: words of reports, and numbers.
func (g *grammar) known(p []byte) {
	for len(p) > 0 {
		n := 0
		for n < len(p) && p[n] != ' ' && p[n] != ':' && p[n] != '=' && p[n] != '>' && p[n] != '[' && p[n] != ']' && p[n] != '(' && p[n] != ')' && p[n] != '#' {
			n++
		}
		if n == 0 {
			g.out.keep(p[:1])
			p = p[1:]
			continue
		}
		word := p[:n]
		switch {
		case g.words.fields[string(word)], g.words.events[string(word)], g.isCallEvent(word):
			g.out.keep(word)
		case len(bytes.Trim(word, "|/-_.,#")) == 0: // of a picture
			g.out.keep(word)
		case bytes.Contains(word, []byte("/")) && isRatio(word):
			g.out.keep(word)
		case g.number("", word, false):
		default:
			g.text(word)
		}
		p = p[n:]
	}
}

// isRatio reports whether a word is "246/640".
func isRatio(word []byte) bool {
	a, b, _ := bytes.Cut(word, []byte("/"))
	return len(a) > 0 && len(b) > 0 && digits(a) == len(a) && digits(b) == len(b)
}

// isCallEvent reports whether a word is the name of a system call's event.
func (g *grammar) isCallEvent(word []byte) bool {
	for _, prefix := range [...]string{"sys_enter_", "sys_exit_"} {
		if name, ok := bytes.CutPrefix(word, []byte(prefix)); ok && g.words.calls[string(name)] {
			return true
		}
	}
	return false
}

const reportMark = "# ustack: "

// ofDevice is before the fields of one of several devices.
var ofDevice = regexp.MustCompile(`^device[0-9]{1,9}\.`)

// version matches our versions.
var version = regexp.MustCompile(`^(\(devel\)|unknown|v[0-9]+\.[0-9]+\.[0-9]+(-[0-9.]+-[0-9a-f]{12})?(\+dirty)?)?( ?[0-9a-f]{40})?$`)

// release is the part of a kernel's release that says which kernel it is: the rest
// was chosen by its builder.
var release = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?(-rc[0-9]+)?`)

// report takes a line of a report's own, "# ustack: KEY=VALUE".
func (g *grammar) report(p []byte) bool {
	if !bytes.HasPrefix(p, []byte(reportMark)) {
		return false
	}
	g.out.keep(p[:len(reportMark)])
	p = p[len(reportMark):]
	if of := ofDevice.Find(p); of != nil {
		g.out.keep(of)
		p = p[len(of):]
	}
	key := wordEnd(p)
	if key == len(p) || p[key] != '=' {
		g.known(p)
		return true
	}
	name, value := string(p[:key]), p[key+1:]
	switch name {
	case "escaped", "version", "ustack", "clock", "clock_offset_ns", "begun", "stacks", "mappings", "events", "arch", "trigger",
		"kernel", "boot_id", "os", "command", "redacted", "devices", "reports", "event_count", "counted", "refused", "duplicates", "weight":
		g.out.keep(p[:key+1])
	default:
		g.out.name(p[:key])
		g.out.keep(p[key : key+1])
	}
	g.reportValue(name, value)
	return true
}

func (g *grammar) reportValue(name string, value []byte) {
	switch name {
	case "escaped", "version", "clock_offset_ns", "clock", "stacks", "mappings", "events", "arch", "trigger", "redacted", "devices", "reports", "event_count", "counted", "refused", "duplicates", "weight":
		g.known(value)
	case "ustack":
		if version.Match(value) {
			g.out.keep(value)
			return
		}
		g.text(value)
	case "begun":
		if _, err := time.Parse(time.RFC3339Nano, string(value)); err == nil {
			g.out.keep(value)
			return
		}
		g.text(value)
	case "kernel":
		n := len(release.Find(value))
		g.out.keep(value[:n])
		if n < len(value) && value[n] == '-' {
			g.out.keep(value[n : n+1])
			n++
		}
		g.text(value[n:])
	default:
		if len(value) > 0 {
			g.out.text(value) // a command line may begin with a path
		}
	}
}

// kernelStack takes "<stack trace>" and its lines. Names of kernel functions can
// come from a private module.
func (g *grammar) kernelStack(p []byte) {
	line, p := cutLine(p)
	txt, feed := cutFeed(line)
	if !text.FixedBody(txt) {
		g.text(txt)
		g.out.keep(feed)
		g.free(p)
		return
	}
	g.out.keep(txt)
	g.out.keep(feed)
	for len(p) > 0 {
		line, p = cutLine(p)
		txt, feed := cutFeed(line)
		switch {
		case bytes.HasPrefix(txt, []byte(text.Arrow)):
			g.out.keep(txt[:len(text.Arrow)])
			if rest := txt[len(text.Arrow):]; len(rest) > 0 {
				g.out.text(rest)
			}
		case !g.report(txt):
			g.text(txt)
		}
		g.out.keep(feed)
	}
}

// frame takes the line of a frame, without its line feed.
func (g *grammar) frame(p []byte) {
	if !bytes.HasPrefix(p, []byte(text.Arrow)) {
		g.text(p)
		return
	}
	g.out.keep(p[:len(text.Arrow)])
	p = p[len(text.Arrow):]
	body, mark := cutReason(p)
	switch open := []byte(" <"); {
	case bytes.HasPrefix(body, open) && bytes.IndexByte(body, '>') > len(open):
		end := bytes.IndexByte(body, '>')
		g.out.keep(body[:len(open)])
		if !g.number("", body[len(open):end], true) {
			g.text(body[len(open):end])
		}
		g.out.keep(body[end : end+1])
		g.suffix(body[end+1:])
	case bytes.HasSuffix(body, []byte("]")) && bytes.Contains(body, []byte(text.ObjectMark)):
		at := bytes.LastIndex(body, []byte(text.ObjectMark))
		g.text(body[:at])
		g.out.keep(body[at : at+2])
		if offset := body[at+2 : len(body)-1]; !g.number("", offset, false) {
			g.text(offset)
		}
		g.out.keep(body[len(body)-1:])
	case len(body) > 0:
		g.out.text(body)
	}
	g.out.keep(mark)
}

// cutReason takes " (unresolved: REASON)" off the end of a frame.
func cutReason(p []byte) (body, mark []byte) {
	at := bytes.LastIndex(p, []byte(text.UnresolvedMark))
	if at < 0 || p[len(p)-1] != ')' {
		return p, nil
	}
	word := string(p[at+len(text.UnresolvedMark) : len(p)-1])
	for r := filemap.NoReason + 1; int(r) < filemap.ReasonCount; r++ {
		if r.String() == word {
			return p[:at], p[at:]
		}
	}
	return p, nil
}

// inode is the identifier of the inode dialects.
var inode = regexp.MustCompile(`^-?[0-9]{1,20} : [0-9]{1,10}:[0-9]{1,10}$`)

// suffix takes the text after a frame's number.
func (g *grammar) suffix(p []byte) {
	const colon = " : "
	if len(p) == 0 {
		return
	}
	if !bytes.HasPrefix(p, []byte(colon)) {
		g.out.text(p)
		return
	}
	g.out.keep(p[:len(colon)])
	p = p[len(colon):]
	if digits, ok := bytes.CutPrefix(p, []byte("0x")); ok {
		if v, ok := parseHex(digits); ok {
			if id := tracefs.HashIdentifier(v); id.NoFile() || id.NoVMA() {
				g.out.keep(p)
			} else {
				g.out.identifier(p, v)
			}
			return
		}
	}
	if inode.Match(p) {
		g.out.keep(p)
		return
	}
	name, code, found := bytes.Cut(p, []byte(text.CodeMark))
	g.memory(name)
	for first := true; found; first = false {
		g.out.keep([]byte(text.CodeMark))
		name, code, found = bytes.Cut(code, []byte(text.CodeMark))
		switch {
		case first:
			g.code(name)
		case len(name) > 0: // inlined, so without a place
			g.out.text(name)
		}
	}
}

// code takes the name of a function in memory without a file, and where in it the frame is:
// a small number, no address.
func (g *grammar) code(p []byte) {
	const largest = 1 << 24
	name, at := text.CutPlace(p)
	if name != nil {
		if v, ok := parseHex(bytes.TrimPrefix(at[1:], []byte("0x"))); !ok || v >= largest {
			name = nil
		}
	}
	if name == nil {
		name, at = p, nil
	}
	if len(name) > 0 {
		g.out.text(name)
	}
	g.out.keep(at)
}

// memory takes the name of memory without a file.
func (g *grammar) memory(p []byte) {
	if g.words.memory[string(p)] {
		g.out.keep(p)
		return
	}
	for _, open := range [...]string{"[anon:", "[anon_shmem:"} {
		if bytes.HasPrefix(p, []byte(open)) && p[len(p)-1] == ']' && len(p) > len(open)+1 {
			g.out.keep(p[:len(open)])
			g.out.text(p[len(open) : len(p)-1])
			g.out.keep(p[len(p)-1:])
			return
		}
	}
	g.text(p)
}
