//go:build !device

package report

import (
	"fmt"
	"strings"

	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/tracefs"
)

// maxRows is how many locks the table has, and as many futexes that are no locks;
// the others are a row together.
const maxRows = 1000

// maxName is how long a name in a page is at most, in bytes.
const maxName = 300

// table is the table of the locks.
type table struct {
	Unit string `json:"unit"`
	// Lossy is set if records were lost, Bounded if there are bounds for what that
	// hides.
	Lossy   bool      `json:"lossy"`
	Bounded bool      `json:"bounded"`
	Results []string  `json:"results"` // what the Results of a row are of
	Rows    []lockRow `json:"rows"`
	rows    map[*futex.Lock]int32
}

// lockRow is a lock, or many.
type lockRow struct {
	Rank    string          `json:"rank"` // of a lock
	Kind    string          `json:"kind"`
	Name    string          `json:"name"`
	Process string          `json:"process"`
	Lock    bool            `json:"lock"` // not a condition variable or the like
	Many    bool            `json:"many"` // it stands for several, and has no Mean and so on
	Waits   int64           `json:"waits"`
	Results []int64         `json:"results"`
	Slept   int64           `json:"slept"`
	Time    [3]tracefs.Time `json:"time"` // seen, and its bounds
	Mean    tracefs.Time    `json:"mean"`
	P50     tracefs.Time    `json:"p50"`
	P99     tracefs.Time    `json:"p99"`
	Max     tracefs.Time    `json:"max"`
	Partial bool            `json:"partial"`
}

func newTable(r *futex.Report) *table {
	t := &table{Unit: "nanoseconds", Lossy: r.Loss.Any(), Bounded: r.Loss.Bounded, Rows: []lockRow{}, rows: make(map[*futex.Lock]int32)}
	if r.Ticks {
		t.Unit = "ticks"
	}
	for i := range len(futex.Lock{}.Results) {
		t.Results = append(t.Results, futex.Result(i).String())
	}
	t.section(true, r.Locks, r.OtherLocks)
	t.section(false, r.Signals, r.OtherSignals)
	return t
}

// section adds the rows of locks, or of other futexes.
func (t *table) section(locks bool, list []*futex.Lock, others *futex.Lock) {
	rest := list[min(len(list), maxRows):]
	for _, l := range list[:len(list)-len(rest)] {
		row := rowOf(l)
		if row.Lock = locks; locks {
			row.Rank = fmt.Sprintf("#%d", l.Rank)
		}
		t.rows[l] = int32(len(t.Rows))
		t.Rows = append(t.Rows, row)
	}
	if len(rest) > 0 {
		row := lockRow{Name: fmt.Sprintf("%d more, which are not shown one by one", len(rest)), Lock: locks, Many: true, Results: make([]int64, len(t.Results))}
		for _, l := range rest {
			t.rows[l] = int32(len(t.Rows))
			row.add(l)
		}
		t.Rows = append(t.Rows, row)
	}
	if others != nil {
		row := lockRow{Name: "others, too many to keep apart", Lock: locks, Many: true, Results: make([]int64, len(t.Results))}
		row.add(others)
		t.Rows = append(t.Rows, row)
	}
}

func rowOf(l *futex.Lock) lockRow {
	row := lockRow{Kind: kindName(l), Name: short(where(l)), Results: make([]int64, len(l.Results)),
		Slept: l.Slept, Mean: l.Mean, P50: l.P50, P99: l.P99, Max: l.Max}
	if l.Process != nil {
		row.Process = short(process(l.Process))
	}
	row.add(l)
	return row
}

// add adds a lock to the locks of a row.
func (row *lockRow) add(l *futex.Lock) {
	row.Waits += l.Waits
	for i, n := range l.Results {
		row.Results[i] += n
	}
	row.Time[0] += l.Time + l.OpenTime
	row.Time[1] += l.Low
	row.Time[2] += l.High
	row.Partial = row.Partial || l.Partial
}

// row returns the row of a lock, from 1; 0 if it has none.
func (t *table) row(l *futex.Lock) int32 {
	if row, ok := t.rows[l]; ok {
		return row + 1
	}
	return 0
}

// short returns a name without its middle if it is too long, with no byte that
// is no text.
func short(name string) string {
	name = framejson.Clean(name)
	if len(name) <= maxName {
		return name
	}
	const half = maxName / 2
	return strings.ToValidUTF8(name[:half], "") + "…" + strings.ToValidUTF8(name[len(name)-half:], "")
}
