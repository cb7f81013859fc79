package manpage

import "strings"

// escape writes characters that groff(7) takes for something else as what they are.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
}

// protect keeps a line from being a request: those begin with a full stop or an
// apostrophe.
func protect(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// quote returns the argument of a macro.
func quote(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }

// inline writes text with its code in bold. Of links the text stays.
func inline(text string) string {
	var out strings.Builder
	for i, part := range strings.Split(links(text), "`") {
		if i%2 == 1 {
			out.WriteString(`\fB` + escape(part) + `\fP`)
		} else {
			out.WriteString(escape(part))
		}
	}
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = protect(lines[i])
	}
	return strings.Join(lines, "\n")
}

// links returns a text without the targets of its links, [text](target).
func links(text string) string {
	for {
		begin, rest, ok := strings.Cut(text, "](")
		at := strings.LastIndexByte(begin, '[')
		_, after, closed := strings.Cut(rest, ")")
		if !ok || at < 0 || !closed {
			return text
		}
		text = begin[:at] + begin[at+1:] + after
	}
}
