package report

import (
	"io"

	"ustack/render/futex"
	"ustack/render/phrase"
)

// Row is a row of a report in the words of its text. Names that a trace has are in it,
// with control characters as escapes.
type Row struct {
	// Kind is what the lock is used as, Where its place: a variable, or Named is not set.
	// Process is its process, "" if unknown.
	Kind, Where, Process string
	Named                bool
	// Code is where threads wait for it most. Owner is who owned it most, Waker who
	// released it or woke its waiters most, WakerCode where that was most often. Each is ""
	// if unknown.
	Code, Owner, Waker, WakerCode string
}

// RowOf returns the row of a lock.
func RowOf(l *futex.Lock) Row {
	row := Row{Kind: kindName(l), Where: where(l), Code: callers(l.WaitStacks)}
	if l.Variable != nil && l.Futexes <= 1 && l.File == "" {
		row.Where, row.Named = phrase.Printable(l.Variable.String()), true
	}
	if l.Process != nil {
		row.Process = process(l.Process)
	}
	if owners := append(l.Owners[:len(l.Owners):len(l.Owners)], l.Holders...); len(owners) > 0 {
		row.Owner = phrase.Thread(owners[0].TID, owners[0].Comm)
	}
	if len(l.WakerTIDs) > 0 {
		row.Waker = phrase.Thread(l.WakerTIDs[0].TID, l.WakerTIDs[0].Comm)
	}
	if row.WakerCode = callers(l.Blamed); row.WakerCode == "" {
		row.WakerCode = callers(l.Wakers)
	}
	return row
}

// callers returns the callers of the stack that has most of the time, "" if it is not known.
func callers(list []futex.StackShare) string {
	if len(list) == 0 || list[0].Stack == nil {
		return ""
	}
	return phrase.Callers(list[0].Stack)
}

// LockText writes what a report has of one of its locks: waiters, owners, stacks and
// chains.
func LockText(w io.Writer, r *futex.Report, l *futex.Lock, opt Options) error {
	t := &text{r: r, opt: opt}
	t.lock(l)
	for _, c := range r.Chains {
		if c.Lock == l {
			t.f("\nIts owner waited for other locks\n\n")
			writeChain(t, c)
		}
	}
	for _, b := range r.Blocked {
		if b.Lock == l {
			t.f("\nWaits that go on\n")
			break
		}
	}
	for _, b := range r.Blocked {
		if b.Lock == l {
			t.f("  %s for %s\n", phrase.Thread(b.TID, b.Comm), t.time(b.Time))
			if b.Stack != nil {
				t.f("      at %s\n", phrase.Frames(b.Stack))
			}
		}
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}
