// Package budget keeps to how many bytes and reports a recorder may write in a day, whatever
// happens to the recorder, the machine and its clock.
//
// What is used is in a state file. A Report reserves bytes there before it writes them, so that
// no crash lets more out than the budget; at its end, what it has not used is given back. After
// a crash the next Open does that, by the size of the file that was being written. If it is not
// there any more, the reservation counts as used: at most chunk bytes too many.
package budget

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ustack/cmd/ustack/internal/command"
)

// ErrSpent: the budget of this day is used.
var ErrSpent = errors.New("the budget of this day is used")

// Least is the least that a report can be limited to. When less is left of a day, nothing is.
const Least = 64 << 10

// Limits are a budget. Zero fields do not limit.
type Limits struct{ Bytes, Reports int64 }

// perDay ends each part of a budget.
const perDay = "/day"

// Parse reads BYTES/day, REPORTS/day or both: 24MB/day,32/day. A number without a unit is one
// of reports.
func Parse(word string) (l Limits, err error) {
	for part := range strings.SplitSeq(word, ",") {
		number, ok := strings.CutSuffix(part, perDay)
		to := &l.Bytes
		var n int64
		if v, perr := strconv.ParseInt(number, 10, 64); perr == nil {
			to, n = &l.Reports, v
		} else if n, err = command.ParseSize("--budget", number); err != nil {
			ok = false
		}
		if !ok || n <= 0 || *to != 0 {
			return Limits{}, fmt.Errorf("--budget takes BYTES/day, REPORTS/day or both, like 24MB/day,32/day, not %q", word)
		}
		*to = n
	}
	if l.Bytes > 0 && l.Bytes < Least {
		return Limits{}, fmt.Errorf("--budget %s: %d bytes are the least that a report can be limited to", word, Least)
	}
	return l, nil
}

// left returns what is left of a limit.
func left(limit, used int64) int64 {
	if limit == 0 {
		return math.MaxInt64
	}
	return max(0, limit-used)
}

// Left is what is left of a day.
type Left struct {
	Bytes, Reports int64         // math.MaxInt64 without a limit
	Next           time.Duration // until the next day begins, of time that is sure to pass
}
