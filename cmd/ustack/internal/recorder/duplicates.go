package recorder

import (
	"slices"
	"time"

	"ustack/cmd/ustack/internal/budget"
	"ustack/render/cause"
)

// duplicates finds reports of which the day has one with the same cause (package cause), whichever
// recorder has written it.
type duplicates struct {
	book  *budget.Book
	say   func(format string, args ...any)
	known []string // what index has
	index *cause.Index
	last  []time.Time // parallel to known: when a duplicate was counted
}

func newDuplicates(book *budget.Book, say func(format string, args ...any)) *duplicates {
	return &duplicates{book: book, say: say, index: cause.NewIndex()}
}

// leastWhile is how long duplicates of a cause are one at least: each is written to the disk.
const leastWhile = time.Second

// take reports whether a cause is known. If it is, it is counted, once in a while.
func (d *duplicates) take(c *cause.Cause, now time.Time, while time.Duration) (bool, error) {
	known, err := d.book.Causes()
	if err != nil {
		return false, err
	}
	d.update(known)
	at, ok := d.index.Has(c)
	if !ok {
		return false, nil
	}
	last := d.last[at]
	if !last.IsZero() && now.Sub(last) < max(while, leastWhile) {
		return true, nil
	}
	if last.IsZero() {
		d.say("this day has a report with the same cause: more of them are counted (--duplicates=write writes them)")
	}
	d.last[at] = now
	return true, d.book.Duplicate()
}

// update makes the index of causes anew if they have changed.
func (d *duplicates) update(known []string) {
	if slices.Equal(known, d.known) {
		return
	}
	last := make(map[string]time.Time, len(d.known))
	for i, text := range d.known {
		last[text] = d.last[i]
	}
	d.known, d.index, d.last = slices.Clone(known), cause.NewIndex(), make([]time.Time, len(known))
	for i, text := range known {
		d.last[i] = last[text]
		if c, err := cause.Parse(text); err == nil { // else of another version: its reports are written
			d.index.Find(c, i)
		}
	}
}
