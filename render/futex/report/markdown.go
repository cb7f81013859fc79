package report

import (
	"fmt"
	"io"
	"strings"

	"ustack/render/futex"
	"ustack/render/markdown"
)

// Markdown writes a report for an issue or a message: a table of locks, what fits onto a
// screen, and the whole text folded away. It is GitHub's kind of Markdown (GFM). Names of
// the trace cannot become markup: they are code, in which nothing is special but the end.
func Markdown(w io.Writer, r *futex.Report, opt Options) error {
	var b strings.Builder
	t := &text{r: r}
	writeTable(&b, t, "Locks", r.Locks, r.LockCount)
	writeTable(&b, t, "Condition variables, joins, parked threads, timeouts", r.Signals, r.SignalCount)
	err := markdown.Both(&b, func(w io.Writer, brief bool) error { return Text(w, r, Options{Top: opt.Top, Brief: brief}) })
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// writeTable writes a row for each of some locks, if there are any.
func writeTable(b *strings.Builder, t *text, title string, locks []*futex.Lock, count int) {
	if len(locks) == 0 {
		return
	}
	fmt.Fprintf(b, "| %s | Waited | Waits | p99 | Max | Most of it waits at |\n|---|--:|--:|--:|--:|---|\n", title)
	for _, l := range locks {
		fmt.Fprintf(b, "| #%d %s | %s | %d | %s | %s | %s |\n", l.Rank, markdown.Code(t.lockName(l)), t.sum(&l.Sum), l.Waits, t.time(l.P99), t.time(l.Max), markdown.Code(place(l.WaitStacks)))
	}
	if more := count - len(locks); more > 0 {
		fmt.Fprintf(b, "| %d more | | | | | |\n", more)
	}
	b.WriteByte('\n')
}
