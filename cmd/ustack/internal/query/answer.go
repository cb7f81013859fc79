package query

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ustack/render/plainjson"
)

// Format is the form of an answer.
type Format string

// The formats.
const (
	FormatTable Format = "table"
	FormatCSV   Format = "csv"
	FormatJSON  Format = "json"
)

// Set takes the name of a format.
func (f *Format) Set(name string) error {
	switch *f = Format(name); *f {
	case FormatTable, FormatCSV, FormatJSON:
		return nil
	}
	return fmt.Errorf("it is %s, %s or %s", FormatTable, FormatCSV, FormatJSON)
}

// Writer writes an answer, a row at a time. A value is nil, an int64, a float64, a string or
// bytes. Control characters, and bytes that are no UTF-8, become octal escapes in a table and
// in CSV, which so have a line for each row.
type Writer interface {
	Row(values []any) error
	// Close writes what has been kept.
	Close() error
}

// NewWriter returns a Writer.
func NewWriter(w io.Writer, f Format, columns []string) (Writer, error) {
	switch f {
	case FormatCSV:
		out := bufio.NewWriter(w)
		c := &csvWriter{out: out, w: csv.NewWriter(out), cells: make([]string, len(columns))}
		return c, c.Row(texts(columns))
	case FormatJSON:
		return newJSONLines(w, columns)
	}
	t := &tableWriter{w: bufio.NewWriter(w), width: make([]int, len(columns)), right: make([]bool, len(columns)), keeps: true}
	return t, t.Row(texts(columns))
}

// texts returns texts as values.
func texts(list []string) []any {
	var out []any
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// cell returns a value as text, without control characters.
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return printable(v)
	case []byte:
		return printable(string(v))
	}
	return printable(fmt.Sprint(value))
}

// printable returns a text with octal escapes for what a terminal would act on.
func printable(s string) string {
	if !strings.ContainsFunc(s, acts) {
		return s
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		if !acts(r) || r == utf8.RuneError && n > 1 {
			b.WriteString(rest[:n])
		} else {
			for _, c := range []byte(rest[:n]) {
				fmt.Fprintf(&b, "\\%03o", c)
			}
		}
		rest = rest[n:]
	}
	return b.String()
}

// acts reports whether a terminal acts on a character: controls, and formats such as the
// direction of text. An invalid byte decodes to RuneError.
func acts(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// csvWriter writes CSV (RFC 4180), with line feeds.
type csvWriter struct {
	out   *bufio.Writer // which w does not wrap in another one
	w     *csv.Writer
	cells []string
}

// Row implements Writer.
func (c *csvWriter) Row(values []any) error {
	for i, v := range values {
		c.cells[i] = cell(v)
	}
	if len(c.cells) == 1 && c.cells[0] == "" { // readers pass over an empty line
		_, err := c.out.WriteString("\"\"\n")
		return err
	}
	return c.w.Write(c.cells)
}

// Close implements Writer.
func (c *csvWriter) Close() error {
	c.w.Flush()
	return c.w.Error()
}

// jsonLines writes an object for each row, with the columns in their order.
type jsonLines struct {
	w    *bufio.Writer
	keys [][]byte
}

func newJSONLines(w io.Writer, columns []string) (*jsonLines, error) {
	j := &jsonLines{w: bufio.NewWriter(w)}
	used := map[string]int{}
	for _, name := range columns {
		unique := name
		for used[unique]++; used[unique] > 1; used[unique]++ { // an object has each key once
			unique = name + "_" + strconv.Itoa(used[name])
		}
		key, err := plainjson.Marshal(strings.ToValidUTF8(unique, "\ufffd"))
		if err != nil {
			return nil, fmt.Errorf("writing the name of a column: %w", err)
		}
		j.keys = append(j.keys, append(key, ':'))
	}
	return j, nil
}

// Row implements Writer.
func (j *jsonLines) Row(values []any) error {
	var line []byte
	for i, v := range values {
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		text, err := plainjson.Marshal(v)
		if err != nil { // infinity
			text, err = plainjson.Marshal(fmt.Sprint(v))
		}
		if err != nil {
			return fmt.Errorf("writing a value: %w", err)
		}
		line = append(append(append(line, ','), j.keys[i]...), text...)
	}
	if len(line) == 0 {
		line = []byte{','}
	}
	line[0] = '{'
	_, err := j.w.Write(append(line, "}\n"...))
	return err
}

// Close implements Writer.
func (j *jsonLines) Close() error { return j.w.Flush() }

// tableWriter writes a table for people. The first rows decide how wide the columns are.
type tableWriter struct {
	w     *bufio.Writer
	width []int
	right []bool // numbers
	kept  [][]string
	size  int
	keeps bool
}

// Bounds of what is kept for the widths of the columns, and of these.
const (
	keptRows  = 1000
	keptBytes = 1 << 20
	maxWidth  = 60
)

// Row implements Writer.
func (t *tableWriter) Row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		if v == nil {
			cells[i] = "NULL"
		} else {
			cells[i] = cell(v)
		}
		switch v.(type) {
		case int64, float64:
			t.right[i] = t.right[i] || t.keeps
		}
	}
	if !t.keeps {
		return t.write(cells)
	}
	for i, text := range cells {
		t.width[i] = max(t.width[i], min(utf8.RuneCountInString(text), maxWidth))
		t.size += len(text)
	}
	if t.kept = append(t.kept, cells); len(t.kept) < keptRows && t.size < keptBytes {
		return nil
	}
	return t.release()
}

// release writes the rows that were kept.
func (t *tableWriter) release() error {
	t.keeps = false
	for _, cells := range t.kept {
		if err := t.write(cells); err != nil {
			return err
		}
	}
	t.kept = nil
	return nil
}

func (t *tableWriter) write(cells []string) error {
	var b strings.Builder
	for i, text := range cells {
		blanks := strings.Repeat(" ", max(t.width[i]-utf8.RuneCountInString(text), 0))
		if i > 0 {
			b.WriteString("  ")
		}
		if t.right[i] {
			b.WriteString(blanks + text)
		} else {
			b.WriteString(text + blanks)
		}
	}
	_, err := t.w.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	return err
}

// Close implements Writer.
func (t *tableWriter) Close() error {
	if t.keeps {
		if err := t.release(); err != nil {
			return err
		}
	}
	return t.w.Flush()
}
