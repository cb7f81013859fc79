package top

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ustack/render"
	"ustack/render/futex"
	"ustack/render/futex/report"
	"ustack/tracefs"
)

// Snapshot is what is known at a time. Nothing changes it. Its texts have no control
// characters.
type Snapshot struct {
	At     tracefs.Time // up to which the trace is whole
	Events int64
	Lost   string // records, "0" if none
	By     futex.By
	// Rows are what is waited for most since the trace began. More are not in them.
	Rows []Row
	More int
	// Detail is the text of the lock Opened, nil if that is not in the report.
	Opened Key
	Detail []string
	// Marked is since when waits are kept to be saved, 0 for never; Keep is of how long the
	// last ones are.
	Marked tracefs.Time
	Keep   time.Duration
	// Said is the last of so many messages.
	Said     string
	Messages int
}

// Key is what a row is of, the same in all snapshots.
type Key string

// Row is a lock, or a place where threads wait for several.
type Row struct {
	Key Key
	report.Row
	// Lock is set if waits are for a lock, and not for a condition variable or the like.
	Lock bool
	// Time is how long threads have waited for it, up to now, in so many waits. Open of them
	// go on, of Threads threads in all; Max is the longest that has ended.
	Time    tracefs.Time
	Waits   int64
	Open    int64
	Threads int
	Max     tracefs.Time
}

// maxRows is how many rows a snapshot has at most.
const maxRows = 500

// newRows returns the rows of a report, the longest time first, and how many it lacks, with the
// text of the one that is open, nil if there is none.
func newRows(r *futex.Report, open Key) (rows []Row, more int, text []string) {
	seen := make(map[Key]int)
	for _, l := range slices.Concat(r.Locks, r.Signals) {
		row := newRow(l, seen)
		if rows = append(rows, row); row.Key == open {
			text = detail(r, l)
		}
	}
	slices.SortStableFunc(rows, func(x, y Row) int { return cmp.Compare(y.Time, x.Time) })
	if len(rows) > maxRows {
		rows = slices.Clip(rows[:maxRows])
	}
	return rows, r.LockCount + r.SignalCount - len(rows), text
}

// newRow returns the row of a lock. seen counts the rows that would have the same key: they
// come in the same order again.
func newRow(l *futex.Lock, seen map[Key]int) Row {
	row := Row{
		Row: report.RowOf(l), Lock: l.Contends(), Time: l.Time + l.OpenTime, Waits: l.Slept + l.Open, Open: l.Open,
		Threads: len(l.Waiters), Max: l.Max,
	}
	for _, text := range []*string{&row.Kind, &row.Where, &row.Process, &row.Code, &row.Owner, &row.Waker, &row.WakerCode} {
		*text = clean(*text)
	}
	row.Key = keyOf(l, &row)
	if seen[row.Key]++; seen[row.Key] > 1 {
		row.Key += Key(fmt.Sprintf("/%d", seen[row.Key]))
	}
	return row
}

// keyOf returns what a lock is known by: where it is, or if it stands for several, what they
// have in common.
func keyOf(l *futex.Lock, row *Row) Key {
	if l.Group == futex.BySite && l.Futexes > 1 {
		return Key(fmt.Sprintf("%s %s", l.Kind, row.Code))
	}
	return Key(fmt.Sprintf("%#x %s %d %s", l.Address, l.File, l.Offset, row.Process))
}

// detail returns the text of a lock.
func detail(r *futex.Report, l *futex.Lock) []string {
	var text bytes.Buffer
	_ = report.LockText(&text, r, l, report.Options{Top: detailTop}) // into memory
	return strings.Split(strings.Trim(clean(text.String()), "\n"), "\n")
}

// detailTop is how many stacks and threads the text of a lock has, at most about.
const detailTop = 40

// clean returns a text with control characters as escapes, but line feeds; a tab is a space.
func clean(text string) string {
	var b bytes.Buffer
	_, _ = render.NewSanitizer(&b).Write([]byte(text)) // into memory
	return strings.ReplaceAll(b.String(), "\t", " ")
}
