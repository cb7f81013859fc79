// Package manpage makes pages for man(1) of the manual and of what commands say of
// themselves, in the macros of man(7). They have no date, so that a build can be repeated.
package manpage

import (
	"fmt"
	"io"
	"strings"
)

// Page is one page.
type Page struct {
	Name    string // "ustack-futex"
	Section int    // 1 for commands, 7 for other topics
	Summary string
	// Help is what the command prints for --help: its usage, text, and flags. Topic is the
	// Markdown of the manual. Either may be "".
	Help, Topic string
	SeeAlso     []string // "ustack(1)"
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	b := &roff{}
	fmt.Fprintf(&b.Builder, ".TH %s %d \"\" ustack \"\"\n.nh\n.ad l\n", strings.ToUpper(escape(p.Name)), p.Section)
	b.section("NAME")
	b.text(p.Name + " - " + p.Summary)
	b.help(p.Help)
	b.markdown(p.Topic)
	if len(p.SeeAlso) > 0 {
		b.section("SEE ALSO")
		b.text(strings.Join(p.SeeAlso, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// roff is a page as it grows.
type roff struct {
	strings.Builder
	begins int // where the text of the last section begins
}

// section begins a section.
func (b *roff) section(title string) {
	fmt.Fprintf(b, ".SH %s\n", quote(title))
	b.begins = b.Len()
}

// paragraph begins a paragraph. A section has one already, and mandoc -Tlint warns of another.
func (b *roff) paragraph() {
	if b.Len() > b.begins {
		b.WriteString(".PP\n")
	}
}

// text writes a line of text.
func (b *roff) text(line string) { fmt.Fprintf(b, "%s\n", inline(line)) }

// asIs writes lines that are not to be filled.
func (b *roff) asIs(lines []string) {
	b.paragraph()
	b.WriteString(".RS 4\n.nf\n")
	for _, line := range lines {
		fmt.Fprintf(b, "%s\n", protect(escape(line)))
	}
	b.WriteString(".fi\n.RE\n")
}

// help writes what a command says of itself: usage lines, then paragraphs, then flags.
func (b *roff) help(text string) {
	if text == "" {
		return
	}
	usage, rest, _ := strings.Cut(text, "\n\n")
	b.section("SYNOPSIS")
	b.WriteString(".nf\n")
	for line := range strings.Lines(usage) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "usage: ")
		fmt.Fprintf(b, "%s\n", protect(escape(line)))
	}
	b.WriteString(".fi\n")
	b.section("DESCRIPTION")
	prose, flags := splitFlags(rest)
	b.blocks(prose)
	if len(flags) > 0 {
		b.section("OPTIONS")
	}
	for _, f := range flags {
		fmt.Fprintf(b, ".TP\n\\fB%s\\fP\n", escape(f.head))
		b.text(f.usage)
	}
}

// option is a flag and what it does.
type option struct{ head, usage string }

// splitFlags splits a help text before its flags, as package command prints them: the
// usage follows a tab.
func splitFlags(text string) (prose string, flags []option) {
	var before strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch head, usage, tab := strings.Cut(line, "\t"); {
		case strings.HasPrefix(line, "  -"):
			flags = append(flags, option{strings.TrimSpace(head), usage})
		case tab && len(flags) > 0:
			f := &flags[len(flags)-1]
			f.usage = strings.TrimSpace(f.usage + " " + usage)
		default:
			before.WriteString(line + "\n")
		}
	}
	return before.String(), flags
}

// markdown writes a topic, without its first line, which is the name and the summary.
func (b *roff) markdown(text string) {
	if text == "" {
		return
	}
	_, text, _ = strings.Cut(text, "\n")
	b.section("MANUAL")
	b.blocks(text)
}

// blocks writes paragraphs, headings, items, examples (lines with an indent) and tables.
func (b *roff) blocks(text string) {
	kept := &block{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		kind := kindOf(line, kept.kind)
		if kind != kept.kind || kind == heading || kind == item && startsItem(line) {
			b.block(kept)
			kept = &block{kind: kind}
		}
		kept.lines = append(kept.lines, line)
	}
	b.block(kept)
}

// block is some lines of one kind.
type block struct {
	kind  kind
	lines []string
}

type kind int

const (
	empty kind = iota
	heading
	paragraph
	item
	example
	table
)

// kindOf returns the kind of a line after one of another kind.
func kindOf(line string, before kind) kind {
	switch {
	case strings.TrimSpace(line) == "":
		if before == example {
			return example // it may go on
		}
		return empty
	case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "### "):
		return heading
	case strings.HasPrefix(line, "|"):
		return table
	case startsItem(line), before == item && strings.HasPrefix(line, "  "):
		return item
	case strings.HasPrefix(line, "  "):
		return example
	}
	return paragraph
}

func startsItem(line string) bool {
	_, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "- ")
	return ok && len(line)-len(strings.TrimLeft(line, " ")) <= 2
}

func (b *roff) block(k *block) {
	switch k.kind {
	case empty:
	case heading:
		b.section(strings.TrimLeft(k.lines[0], "# "))
	case paragraph:
		b.paragraph()
		b.text(strings.Join(k.lines, "\n"))
	case item:
		b.WriteString(".IP \\(bu 2\n")
		for i, line := range k.lines {
			k.lines[i] = strings.TrimSpace(line)
		}
		b.text(strings.TrimPrefix(strings.Join(k.lines, "\n"), "- "))
	case example:
		b.asIs(unindent(k.lines))
	case table:
		b.asIs(k.lines)
	}
}

// unindent takes the indent that all lines share, and empty lines at the end.
func unindent(lines []string) []string {
	least := len(lines[0])
	for _, line := range lines {
		if word := strings.TrimLeft(line, " "); word != "" {
			least = min(least, len(line)-len(word))
		}
	}
	for i := range lines {
		lines[i] = lines[i][min(least, len(lines[i])):]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
