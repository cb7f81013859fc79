// Package tables makes tables of a saved trace: who waited for which lock, who held it,
// with which stacks, in which lines of the trace, and what was lost.
//
// Rows go to a Sink as they are known, in bounded memory: events while the trace is read,
// all else at its end. What a column means is said once, where its value comes from, and
// is what Schema prints.
package tables

import (
	"fmt"
	"io"
	"strings"
)

// Type is the type of a column, as SQL has it.
type Type string

// The types. A truth value is an Integer, 0 or 1; times are Integers, in nanoseconds, or in
// ticks of the trace's clock (trace.time_unit).
const (
	Integer Type = "INTEGER"
	Text    Type = "TEXT"
)

// Column is a column of a table.
type Column struct {
	Name  string
	Type  Type
	About string // one line
}

// Table is a table.
type Table struct {
	Name    string
	About   string // one line
	Columns []Column
	// Indexes are the columns by which rows are found.
	Indexes []string
}

// Sink takes rows. A value is an int64, a string or nil; values are not kept.
type Sink interface {
	Row(table string, values []any) error
}

// All returns all tables.
func All() []Table {
	return []Table{
		traceTable().Table, locksTable().Table, waitsTable().Table, holdsTable().Table, threadsTable().Table,
		stacksTable().Table, framesTable().Table, eventsTable().Table, lossTable().Table, headTable().Table,
	}
}

// SQL returns the statement that makes the table, with a comment at each column.
func (t *Table) SQL() string {
	var b strings.Builder
	width := 0
	for _, c := range t.Columns {
		width = max(width, len(c.Name)+1+len(c.Type))
	}
	fmt.Fprintf(&b, "-- %s\nCREATE TABLE %s (\n", t.About, t.Name)
	for i, c := range t.Columns {
		comma := ","
		if i == len(t.Columns)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "  %-*s -- %s\n", width+1, c.Name+" "+string(c.Type)+comma, c.About)
	}
	b.WriteString(");\n")
	return b.String()
}

// WriteSchema writes the statements that make all tables.
func WriteSchema(w io.Writer) error {
	for i, t := range All() {
		text := t.SQL()
		if i > 0 {
			text = "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("writing the schema: %w", err)
		}
	}
	return nil
}

// table is a Table with where the values of its rows come from.
type table[T any] struct {
	Table
	values []func(*T) any
	row    []any
}

// column is a column with where its value comes from.
type column[T any] struct {
	name  string
	kind  Type
	about string
	value func(*T) any
}

func define[T any](name, about string, columns ...column[T]) *table[T] {
	t := &table[T]{Table: Table{Name: name, About: about}, row: make([]any, len(columns))}
	for _, c := range columns {
		t.Columns = append(t.Columns, Column{c.name, c.kind, c.about})
		t.values = append(t.values, c.value)
	}
	return t
}

// by adds indexes.
func (t *table[T]) by(columns ...string) *table[T] {
	t.Indexes = columns
	return t
}

// put sends a row.
func (t *table[T]) put(to Sink, from *T) error {
	for i, value := range t.values {
		t.row[i] = value(from)
	}
	return to.Row(t.Name, t.row)
}

// some returns a number, nil if it is zero: what 0 stands for is unknown.
func some[N ~int32 | ~int64 | ~int](n N) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}

// positive returns a number, nil if it is negative.
func positive[N ~int32 | ~int64](n N) any {
	if n < 0 {
		return nil
	}
	return int64(n)
}

// word returns a text, nil if it is empty. It is valid UTF-8 then.
func word(s string) any {
	if s == "" {
		return nil
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// truth is a truth value.
func truth(b bool) any {
	if b {
		return int64(1)
	}
	return int64(0)
}
