// Package markdown writes reports for issues and messages, in GitHub's kind of Markdown (GFM).
// Names of a trace cannot become markup: they are code, in which nothing is special but the
// end.
package markdown

import (
	"fmt"
	"io"
	"strings"

	"ustack/render/phrase"
)

// Both writes what fits onto a screen, and the whole text folded away.
func Both(w io.Writer, text func(w io.Writer, brief bool) error) error {
	var brief, whole strings.Builder
	if err := text(&brief, true); err != nil {
		return err
	}
	if err := text(&whole, false); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n<details><summary>The whole report</summary>\n\n%s\n</details>\n\n", Fenced(brief.String()), Fenced(whole.String()))
	return err
}

// Code returns a text as code in a cell of a table: what could be markup, or end the cell,
// is a character reference.
func Code(s string) string {
	var b strings.Builder
	b.WriteString("<code>")
	for _, r := range phrase.Printable(s) {
		if strings.ContainsRune("\\`*_{}[]<>#|~&@!$\"'", r) || r == '\n' {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteString("</code>")
	return b.String()
}

// Fenced returns a text as a block of code. Its fence is longer than any in the text.
func Fenced(s string) string {
	longest, run := 2, 0
	for i := range len(s) {
		if run++; s[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "text\n" + strings.TrimRight(s, "\n") + "\n" + fence + "\n"
}
