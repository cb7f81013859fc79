// Package health prints how far stacks through programs and libraries can be followed.
package health

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"ustack/filemap/unwind/health"
	"ustack/tracefs/escape"
)

// Writer prints what was found, a file at a time. Close prints what sums them up.
type Writer interface {
	File(*health.Target) error
	Process(*health.Process) error
	Close() error
}

// NewText returns a Writer for people: a line a file, with what it has if verbose is
// set; then, by reason, in which files stacks stop, and what to do.
func NewText(w io.Writer, verbose bool) Writer {
	return &text{w: w, verbose: verbose, bases: make(map[string]int)}
}

type text struct {
	w       io.Writer
	buf     bytes.Buffer
	verbose bool
	files   []row
	bases   map[string]int // how many files have this base name
	bare    []health.Process
}

// row is the part of a file's report that is kept for the end.
type row struct {
	path, id        string
	reasons         []health.Reason
	unwound, kernel health.Passage
}

// line is a line of the table.
const line = "%-6s  %-11s  %-19s  %-16s  %-8s  %s\n"

// File implements Writer.
func (t *text) File(s *health.Target) error {
	if len(t.files) == 0 {
		fmt.Fprintf(&t.buf, line, "UNWIND", "FP", "TABLES", "NAMES", "BUILD-ID", "FILE")
	}
	r := s.Report
	if r == nil {
		t.files = append(t.files, row{path: s.Path, unwound: health.Unsure, kernel: health.Unsure})
		fmt.Fprintf(&t.buf, line, "-", "-", "not ELF", "-", "-", clean(s.Path))
		return t.flush()
	}
	t.files = append(t.files, row{s.Path, r.BuildID.Hex(), r.Reasons(), r.Unwound(), r.Kernel()})
	t.bases[path.Base(s.Path)]++
	fmt.Fprintf(&t.buf, line, unwound(r), pointers(r), tables(r), names(r), shortID(r), clean(s.Path))
	if t.verbose {
		t.details(s)
	}
	return t.flush()
}

// Process implements Writer.
func (t *text) Process(p *health.Process) error {
	if p.Bare > 0 {
		t.bare = append(t.bare, *p)
	}
	return nil
}

func (t *text) flush() error {
	_, err := t.w.Write(t.buf.Bytes())
	t.buf.Reset()
	return err
}

func clean(s string) string { return string(escape.Append(nil, []byte(s))) }

func unwound(r *health.Report) string {
	switch r.Unwound() {
	case health.Through:
		return "whole"
	case health.Unsure:
		return "-"
	}
	if r.HasTable() && r.Reach > 0 {
		return percent(r.Reach)
	}
	return "stops"
}

// percent never says that all is there if it is not.
func percent(share float64) string { return strconv.Itoa(int(100*share)) + " %" }

func pointers(r *health.Report) string {
	if r.FramePointers == health.Unknown {
		return "-"
	}
	return r.FramePointers.String() + " " + percent(float64(r.Keeping)/float64(r.Looked))
}

func tables(r *health.Report) string {
	if !r.Known() {
		return "-"
	}
	var list []string
	for _, t := range tablesOf(r) {
		name := strings.TrimPrefix(t.name, ".")
		if t.Table == &r.GoTable {
			name = "go"
		}
		if t.Version > 0 {
			name += " v" + strconv.Itoa(t.Version)
		}
		list = append(list, name)
	}
	if len(list) == 0 {
		return none(r)
	}
	return strings.Join(list, "+") + " " + percent(r.Covered)
}

// named is a table with its name.
type named struct {
	name string
	*health.Table
}

// tablesOf returns the tables that a file has.
func tablesOf(r *health.Report) (list []named) {
	for _, t := range [...]named{{".eh_frame", &r.EHFrame}, {".debug_frame", &r.DebugFrame}, {".sframe", &r.SFrame}, {".gopclntab", &r.GoTable}} {
		if t.Present {
			list = append(list, t)
		}
	}
	return list
}

func names(r *health.Report) string {
	name := r.Names.String()
	switch {
	case r.Separate.Names > r.Names:
		name = "debug file"
	case name == "":
		name = none(r)
	}
	if r.DebugInfo || r.Separate.DebugInfo {
		name += "+lines"
	}
	return name
}

// none returns what is printed where a file has no tables or names, or they are not
// found.
func none(r *health.Report) string {
	if r.NoSections {
		return "-"
	}
	return "none"
}

// shortID returns the beginning of a build ID.
func shortID(r *health.Report) string {
	const digits = 8
	hex := r.BuildID.Hex()
	if hex == "" {
		return "none"
	}
	return hex[:min(len(hex), digits)]
}

// width is how wide lines of the end are, in characters.
const width = 76

// wrap prints a text, which goes on after indent where a line ends.
func (t *text) wrap(head, indent, text string) { t.wrapWords(head, indent, strings.Fields(text)) }

// wrapWords prints words, none of which is broken.
func (t *text) wrapWords(head, indent string, words []string) {
	column := utf8.RuneCountInString(head)
	t.buf.WriteString(head)
	for i, word := range words {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			t.buf.WriteString("\n" + indent)
			column = len(indent)
		default:
			t.buf.WriteByte(' ')
			column++
		}
		t.buf.WriteString(word)
		column += n
	}
	t.buf.WriteByte('\n')
}
