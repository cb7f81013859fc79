package redact

import (
	"bytes"
	"regexp"

	"ustack/tracefs"
	"ustack/tracefs/text"
)

// out takes the pieces of a text in their order: all of it, each byte once.
type out interface {
	keep(p []byte)                 // harmless
	text(p []byte)                 // a secret string
	comm(p []byte)                 // the name in a head, without the blanks before it
	name(p []byte)                 // a secret where only letters, digits and _ may stand
	path(p []byte)                 // a secret path that begins with '/'
	address(p []byte, v uint64)    // a number that is an address
	narrow(p []byte, v uint64)     // a number of which the upper half is a secret
	identifier(p []byte, _ uint64) // what a frame has in the place of a file
	other(p []byte, with string)   // a secret that something harmless can replace
}

// grammar takes lines of a trace apart.
type grammar struct {
	paths Paths
	words *words
	out   out
	// escaped: the text is (tracefs.Batch.Escaped).
	escaped bool
}

const commWidth = 16

// HasColumns reports whether a record's head is of the usual layout.
func HasColumns(head []byte, escaped bool) bool { return text.CommEnd(head, escaped) >= 0 }

// flagColumns are the flags in a head (trace_print_lat_fmt in
// kernel/trace/trace_output.c).
var flagColumns = regexp.MustCompile(`^[dDbBX.][NnpBLlb.][ZzHhs.][0-9a-f.][0-9a-f.]?$`)

// head takes a record's head, "%16s-%-7d [%03d] FLAGS %5lu.%06lu: ".
func (g *grammar) head(p []byte) {
	end := text.CommEnd(p, g.escaped)
	comm := bytes.TrimLeft(p[:end], " ")
	switch string(comm) {
	case "", tracefs.CommUnknown, tracefs.CommIdle, tracefs.CommInvalid, "ustack":
		g.out.keep(p[:end])
	default:
		g.out.comm(comm)
	}
	rest := p[end:]
	for len(rest) > 0 {
		n := bytes.IndexByte(rest, ' ') + 1
		if n == 0 {
			n = len(rest)
		}
		word := bytes.TrimSuffix(rest[:n], []byte(" "))
		if len(bytes.Trim(word, "0123456789-()[].:")) == 0 || flagColumns.Match(word) {
			g.out.keep(rest[:n])
		} else {
			g.out.other(rest[:n], ".... ")
		}
		rest = rest[n:]
	}
}

// body takes the body of a record, all lines of it.
func (g *grammar) body(p []byte) {
	line, _ := cutLine(p)
	if title, feed := cutFeed(line); text.FixedBody(title) {
		g.out.keep(title)
		g.out.keep(feed)
		g.free(p[len(line):])
		return
	}
	// A name can hold line feeds, so the event goes on to where a line of the
	// report's own begins.
	end := len(p)
	if at := bytes.Index(p, []byte("\n"+reportMark)); at >= 0 {
		end = at + 1
	}
	text, feed := cutFeed(p[:end])
	first, firstFeed := cutFeed(line)
	switch {
	case g.call(text):
	case g.call(first):
		g.out.keep(firstFeed)
		g.free(p[len(line):])
		return
	default:
		g.event(text)
	}
	g.out.keep(feed)
	g.free(p[end:])
}

// cutLine returns the first line with its line feed, and the rest.
func cutLine(p []byte) (line, rest []byte) {
	if n := bytes.IndexByte(p, '\n') + 1; n > 0 {
		return p[:n], p[n:]
	}
	return p, p[len(p):]
}

// cutFeed returns a line without its line feed, and that.
func cutFeed(line []byte) (text, feed []byte) {
	n := len(bytes.TrimSuffix(line, []byte("\n")))
	return line[:n], line[n:]
}

// wordEnd returns where the letters, digits and underscores at the beginning
// end.
func wordEnd(b []byte) int {
	for i, c := range b {
		if !isWordByte(c) {
			return i
		}
	}
	return len(b)
}

// call takes a system call, "sys_NAME(KEY: VALUE, …)" or "sys_NAME -> RESULT".
func (g *grammar) call(p []byte) bool {
	const prefix = "sys_"
	if !bytes.HasPrefix(p, []byte(prefix)) {
		return false
	}
	n := len(prefix) + wordEnd(p[len(prefix):])
	name, after := p[len(prefix):n], p[n:]
	enter := len(after) > 1 && after[0] == '(' && after[len(after)-1] == ')'
	const arrow = " -> "
	if !enter && (!bytes.HasPrefix(after, []byte(arrow)) || bytes.IndexByte(after, '\n') >= 0) {
		return false
	}
	g.out.keep(p[:len(prefix)])
	if g.words.calls[string(name)] {
		g.out.keep(name)
	} else {
		g.out.name(name)
	}
	if enter {
		g.out.keep(after[:1])
		g.arguments(after[1 : len(after)-1])
		g.out.keep(after[len(after)-1:])
		return true
	}
	g.out.keep(after[:len(arrow)])
	if result := after[len(arrow):]; !g.number("", result, true) {
		g.text(result)
	}
	return true
}

// arguments takes "KEY: VALUE, KEY: VALUE". A value ends at the next known key,
// whatever it contains.
func (g *grammar) arguments(p []byte) {
	for len(p) > 0 {
		key := wordEnd(p)
		if !g.isKey(p, key, ": ") {
			g.argument("", p)
			return
		}
		g.out.keep(p[:key+2])
		name := string(p[:key])
		p = p[key+2:]
		end := g.nextKey(p, ", ", ": ")
		g.argument(name, p[:end])
		p = p[end:]
		if len(p) > 0 {
			g.out.keep(p[:2])
			p = p[2:]
		}
	}
}

// isKey reports whether p begins with a known key of n bytes and a separator.
func (g *grammar) isKey(p []byte, n int, separator string) bool {
	return n > 0 && bytes.HasPrefix(p[n:], []byte(separator)) && g.words.keys[string(p[:n])]
}

// nextKey returns where between stands before a known key, or the end.
func (g *grammar) nextKey(p []byte, between, separator string) int {
	for i := 0; i < len(p); {
		at := bytes.Index(p[i:], []byte(between))
		if at < 0 {
			return len(p)
		}
		i += at
		if next := p[i+len(between):]; g.isKey(next, wordEnd(next), separator) {
			return i
		}
		i += len(between)
	}
	return len(p)
}

// argument takes the value of an argument: a number, names of bits, or an
// address and the string that is there, in quotes.
func (g *grammar) argument(key string, p []byte) {
	switch {
	case len(p) == 0 || g.number(key, p, true):
		return
	case g.flags(p):
		return
	}
	if at := bytes.IndexByte(p, ' '); at > 0 && g.number(key, p[:at], true) {
		g.out.keep(p[at : at+1])
		p = p[at+1:]
	}
	if len(p) > 1 && p[0] == '"' && p[len(p)-1] == '"' {
		g.out.keep(p[:1])
		g.text(p[1 : len(p)-1])
		g.out.keep(p[len(p)-1:])
		return
	}
	g.text(p)
}

// flags takes "FUTEX_WAIT|FUTEX_PRIVATE_FLAG".
func (g *grammar) flags(p []byte) bool {
	for word := range bytes.SplitSeq(p, []byte("|")) {
		if !g.words.values[string(word)] {
			return false
		}
	}
	g.out.keep(p)
	return true
}

// text takes a string: a path, which has the same token wherever it stands, or
// a secret.
func (g *grammar) text(p []byte) {
	switch {
	case len(p) == 0:
	case p[0] == '/':
		path, mark := cutDeleted(p)
		if g.paths.Allow(path) {
			g.out.keep(path)
		} else {
			g.out.path(path)
		}
		g.out.keep(mark)
	default:
		g.out.text(p)
	}
}
