package report

import (
	"fmt"
	"io"
	"strings"

	"ustack/render/futex"
	"ustack/render/phrase"
)

// Markdown writes a report for an issue or a message: a table of locks, what fits onto a
// screen, and the whole text folded away. It is GitHub's kind of Markdown (GFM). Names of
// the trace cannot become markup: they are code, in which nothing is special but the end.
func Markdown(w io.Writer, r *futex.Report, opt Options) error {
	var b strings.Builder
	t := &text{r: r}
	writeTable(&b, t, "Locks", r.Locks, r.LockCount)
	writeTable(&b, t, "Condition variables, joins, parked threads, timeouts", r.Signals, r.SignalCount)
	for _, part := range []struct {
		brief       bool
		begin, stop string
	}{{true, "", ""}, {false, "<details><summary>The whole report</summary>\n\n", "\n</details>\n"}} {
		var whole strings.Builder
		if err := Text(&whole, r, Options{Top: opt.Top, Brief: part.brief}); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s%s%s\n", part.begin, fenced(whole.String()), part.stop)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes a row for each of some locks, if there are any.
func writeTable(b *strings.Builder, t *text, title string, locks []*futex.Lock, count int) {
	if len(locks) == 0 {
		return
	}
	fmt.Fprintf(b, "| %s | Waited | Waits | p99 | Max | Most of it waits at |\n|---|--:|--:|--:|--:|---|\n", title)
	for _, l := range locks {
		fmt.Fprintf(b, "| #%d %s | %s | %d | %s | %s | %s |\n", l.Rank, code(t.lockName(l)), t.sum(&l.Sum), l.Waits, t.time(l.P99), t.time(l.Max), code(t.place(l.WaitStacks)))
	}
	if more := count - len(locks); more > 0 {
		fmt.Fprintf(b, "| %d more | | | | | |\n", more)
	}
	b.WriteByte('\n')
}

// code returns a text as code in a cell of a table: what could be markup, or end the cell,
// is a character reference.
func code(s string) string {
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

// fenced returns a text as a block of code. Its fence is longer than any in the text.
func fenced(s string) string {
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
