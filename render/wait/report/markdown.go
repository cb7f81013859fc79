package report

import (
	"fmt"
	"io"
	"strings"

	"ustack/render/markdown"
	"ustack/render/wait"
)

// Markdown writes a report for an issue or a message: tables of waits, what fits onto a
// screen, and the whole text folded away.
func Markdown(w io.Writer, r *wait.Report) error {
	var b strings.Builder
	t := &text{r: r}
	blocked, events, unknown := t.sections()
	t.rows(&b, "Waits", blocked)
	t.rows(&b, "Waits for events", events)
	t.rows(&b, "Waits for unknown things", unknown)
	if more := r.RowCount - len(r.Rows); more > 0 {
		fmt.Fprintf(&b, "%d more rows are not shown.\n\n", more)
	}
	if err := markdown.Both(&b, func(w io.Writer, brief bool) error { return Text(w, r, Options{Brief: brief}) }); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rows writes a table with a row for each of some waits, if there are any.
func (t *text) rows(b *strings.Builder, title string, rows []*wait.Row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "| %s | Waited | Waits | p99 | Max | Most of it at |\n|---|--:|--:|--:|--:|---|\n", title)
	for _, r := range rows {
		if len(r.Sites) == 0 {
			continue // too many to keep apart: the text has their sum
		}
		longest := " | "
		if r.Slept > 0 {
			longest = t.time(r.P99) + " | " + t.time(r.Max)
		}
		fmt.Fprintf(b, "| %s | %s | %d | %s | %s |\n", markdown.Code(t.what(r)), t.time(r.All()), r.Count(), longest, markdown.Code(place(&r.Sites[0])))
	}
	b.WriteByte('\n')
}
