package recorder

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"ustack/cmd/ustack/internal/budget"
	"ustack/render/record"
)

// Budget bounds what reports take in a day. A nil one bounds nothing.
type Budget struct {
	book   *budget.Book
	report *budget.Report // that is being written, nil for none
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
	return &Budget{book: book}, nil
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
		b.book.Refuse()
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
		b.report, err = b.book.Begin(file, name)
		return b.report, err
	}
}

// fields returns what the head of the next report says.
func (b *Budget) fields() []record.Field {
	if b == nil || b.book.Counts().Refused == 0 {
		return nil
	}
	return record.FieldsOf("refused", strconv.FormatInt(b.book.Counts().Refused, 10))
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
