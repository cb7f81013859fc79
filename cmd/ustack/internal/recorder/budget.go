package recorder

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"ustack/cmd/ustack/internal/budget"
	"ustack/render/cause"
	"ustack/render/record"
)

// Budget bounds what reports take in a day. A nil one bounds nothing.
type Budget struct {
	book   *budget.Book
	report *budget.Report // that is being written, nil for none
	// duplicates finds reports of which the day has one with the same cause, nil if they are
	// written, too.
	duplicates *duplicates
	cause      *cause.Cause // of the next report, nil if it is unknown
}

// OpenBudget opens the budget that flags describe, nil if they do not. out is the name of the
// reports.
func OpenBudget(f *budget.Flags, out, proc string, say func(format string, args ...any)) (*Budget, error) {
	path, err := f.Path(out)
	if path == "" || err != nil {
		return nil, err
	}
	book, warning, err := budget.Open(path, f.Limits, budget.Clock(proc))
	if err != nil {
		return nil, err
	}
	if warning != "" {
		say("%s", warning)
	}
	b := &Budget{book: book}
	if f.CountsDuplicates() {
		b.duplicates = newDuplicates(book, say)
	}
	return b, nil
}

// Room returns the largest size of the next report, 0 for no bound, as of one that has a largest
// size itself. The error is budget.ErrSpent, with when to try again, if there can be none: that
// is counted.
func (b *Budget) Room(most int64) (int64, error) {
	if b == nil {
		return most, nil
	}
	left, err := b.book.Left()
	switch {
	case err != nil:
		return 0, err
	case left.Bytes < budget.Least || left.Reports == 0:
		if err := b.book.Refuse(); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: the next one begins in %v at most", budget.ErrSpent, left.Next.Round(time.Second))
	case left.Bytes == math.MaxInt64 || most > 0 && most < left.Bytes:
		return most, nil
	}
	return left.Bytes, nil
}

// account returns what the next report is counted on, nil for nothing.
func (b *Budget) account() record.Account {
	if b == nil {
		return nil
	}
	return func(file *os.File, name string) (_ record.Meter, err error) {
		about := ""
		if b.cause != nil {
			about = b.cause.String()
		}
		b.report, err = b.book.Begin(file, name, about)
		return b.report, err
	}
}

// fields returns what the head of the next report says.
func (b *Budget) fields() []record.Field {
	if b == nil {
		return nil
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	counts := b.book.Counts()
	return record.FieldsOf("refused", number(counts.Refused), "duplicates", number(counts.Duplicates))
}

// about says what the cause of the next report is, nil if it is unknown.
func (b *Budget) about(c *cause.Cause) {
	if b != nil {
		b.cause = c
	}
}

// repeats reports whether this day has a report with the same cause. That is counted, but each
// cause only once in a while.
func (b *Budget) repeats(c *cause.Cause, now time.Time, while time.Duration) (bool, error) {
	if b == nil || b.duplicates == nil || c == nil {
		return false, nil
	}
	return b.duplicates.take(c, now, while)
}

// end ends the account of a report, if there is one.
func (b *Budget) end() error {
	if b == nil || b.report == nil {
		return nil
	}
	err := b.report.End()
	b.report = nil
	return err
}

// Close closes the budget.
func (b *Budget) Close() error {
	if b == nil {
		return nil
	}
	return errors.Join(b.end(), b.book.Close())
}
