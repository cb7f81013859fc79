package redact

import "bytes"

// event takes "NAME: TEXT". The text of events that are not known is free, and
// no number of it stays: it may be a marker of a program.
func (g *grammar) event(p []byte) {
	n := wordEnd(p)
	if n == 0 || n >= len(p) || p[n] != ':' {
		g.free(p)
		return
	}
	rest := bytes.TrimLeft(p[n+1:], " ")
	blank := p[n : len(p)-len(rest)]
	name := string(p[:n])
	if call, ok := bytes.CutPrefix(p[:n], []byte("sys_enter_")); ok && g.words.calls[string(call)] {
		g.out.keep(p[:n+len(blank)])
		if key := wordEnd(rest); g.isKey(rest, key, ": ") {
			g.arguments(rest)
		} else {
			g.fields(rest)
		}
		return
	}
	if call, ok := bytes.CutPrefix(p[:n], []byte("sys_exit_")); ok && g.words.calls[string(call)] {
		g.out.keep(p[:n+len(blank)])
		g.fields(rest)
		return
	}
	switch {
	case g.words.events[name]:
		g.out.keep(p[:n+len(blank)])
		g.fields(rest)
	case isSum(p[:n]):
		g.out.keep(p[:n+len(blank)])
		g.sums(rest)
	case isMarker(name):
		g.out.keep(p[:n+len(blank)])
		g.free(rest)
	default:
		g.out.name(p[:n])
		g.out.keep(blank)
		g.free(rest)
	}
}

// isMarker reports whether an event is one of the tracer's own with free text, or a
// mapping event that could not be read.
func isMarker(name string) bool {
	switch name {
	case "tracing_mark_write", "print", "bprint", "bputs", "raw_data", "file_map", "file_cache", "inode_cache":
		return true
	}
	return false
}

// fields takes the text of a known event: "KEY=VALUE KEY=VALUE", with anything
// between.
func (g *grammar) fields(p []byte) {
	// A name can hold " ==> " too: the last one counts.
	rest := len(p) - bytes.LastIndex(p, []byte(" ==> "))
	for len(p) > 0 {
		if key := wordEnd(p); g.isKey(p, key, "=") {
			g.out.keep(p[:key+1])
			name := string(p[:key])
			p = p[key+1:]
			end := g.nextKey(p, " ", "=")
			if at := len(p) - rest; at >= 0 {
				end = min(end, at)
			}
			if at := bytes.IndexByte(p[:end], '\n'); at >= 0 && !isNameKey(name) {
				end = at
			}
			g.field(name, p[:end])
			p = p[end:]
			continue
		}
		if p[0] == '\n' {
			g.out.keep(p[:1])
			g.free(p[1:])
			return
		}
		end := wordsEnd(p)
		if end == 0 {
			end = 1
		}
		g.loose("", p[:end], end < len(p) && (p[end] == ':' || p[end] == '='))
		p = p[end:]
	}
}

// field takes the value of a field, and the text between it and the next.
func (g *grammar) field(key string, p []byte) {
	trimmed := bytes.TrimLeft(p, " ") // as a head has it
	from := len(p) - len(trimmed)
	if isNameKey(key) {
		g.out.keep(p[:from])
		switch {
		case key == "filename":
			g.text(trimmed)
		case len(trimmed) == 0 || isIdleComm(trimmed):
			g.out.keep(trimmed)
		default:
			g.out.text(trimmed)
		}
		return
	}
	if key == "event" && (g.words.events[string(p)] || g.isCallEvent(p)) {
		g.out.keep(p) // of a merged report
		return
	}
	for len(p) > 0 {
		end := wordsEnd(p)
		if end == 0 {
			g.loose(key, p[:1], false)
			p = p[1:]
			continue
		}
		g.loose(key, p[:end], end < len(p) && (p[end] == ':' || p[end] == '='))
		p = p[end:]
	}
}

// isIdleComm reports whether a name is an idle task's, "swapper/0".
func isIdleComm(p []byte) bool {
	n, ok := bytes.CutPrefix(p, []byte("swapper/"))
	return ok && len(n) > 0 && digits(n) == len(n)
}

// isDelimiter reports whether a character stands between words.
func isDelimiter(c byte) bool { return bytes.IndexByte([]byte(" \t\n,;()[]{}<>|=:\"'"), c) >= 0 }

// wordsEnd returns where the word at the beginning ends.
func wordsEnd(p []byte) int {
	for i, c := range p {
		if isDelimiter(c) {
			return i
		}
	}
	return len(p)
}

// loose takes a word, or a delimiter. key is the field that it stands in.
func (g *grammar) loose(key string, word []byte, isKey bool) {
	switch {
	case len(word) == 1 && (isDelimiter(word[0]) || word[0] == '-' || word[0] == '+'):
		g.out.keep(word)
	case isKey && g.words.keys[string(word)], g.words.values[string(word)]:
		g.out.keep(word)
	case g.number(key, word, key == "clone_flags"):
	default:
		g.text(word)
	}
}
