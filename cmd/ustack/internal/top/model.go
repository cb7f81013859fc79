package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ustack/render/futex"
	"ustack/tracefs"
)

// Look is how the screen is drawn.
type Look struct {
	ASCII bool // the terminal has no UTF-8
	Color bool
}

// model is the screen. Its methods run in one goroutine.
//
// Invariants:
//   - What is drawn is of snap, and of trends, which end with rates up to at.
//   - A text that is open is that of the key opened, or nil until it has come.
type model struct {
	look    Look
	wishes  *wishes
	waiting mailbox

	width, height int
	snap          *Snapshot // nil before the first one
	at            tracefs.Time
	trends        map[Key]*trend

	by       futex.By
	sort     ordering
	all      bool // futexes that are not locks, too
	filter   string
	typing   bool // the filter
	asking   bool // for how many seconds to keep, of which digits have been typed
	digits   string
	frozen   bool
	help     bool
	selected Key
	line     int // where the selected row is, or was last
	opened   Key // "" for none
	text     []string
	scroll   int
}

// trend is how much a row has been waited for, a second.
type trend struct {
	time  tracefs.Time // up to model.at
	waits int64
	known bool      // there are rates
	rate  float64   // seconds of waiting a second
	freq  float64   // waits a second
	rates []float64 // the last ones, at most maxRates
}

// maxRates is how many rates a trend has at most.
const maxRates = 60

// leastStep is the least time of the trace that a rate is of: snapshots that were wished for
// come at any time.
const leastStep = tracefs.Time(snapshotEvery * 9 / 10)

// ordering is what rows are sorted by.
type ordering uint8

const (
	byRate ordering = iota
	byFreq
	byTotal
	byMax
	byThreads
	orders
)

// String returns the word on the screen.
func (o ordering) String() string {
	return [...]string{"wait/s", "waits/s", "total", "longest", "threads"}[o]
}

func newModel(look Look, w *wishes, from mailbox) *model {
	m := &model{look: look, wishes: w, waiting: from, by: futex.ByObject, width: 80, height: 24, trends: make(map[Key]*trend)}
	m.wish()
	return m
}

// wish says what snapshots are to have.
func (m *model) wish() { m.wishes.see(view{By: m.by, Open: m.opened}) }

// take takes a snapshot.
func (m *model) take(s *Snapshot) {
	if s.By != m.by {
		return // made before the wish was known
	}
	m.measure(s)
	if s.Opened == m.opened && s.Detail != nil {
		m.text = s.Detail
	}
	if m.frozen && m.snap != nil {
		kept := *m.snap
		kept.Said, kept.Messages = s.Said, s.Messages
		s = &kept
	}
	m.snap = s
	m.clamp()
}

// measure brings the trends up to date.
func (m *model) measure(s *Snapshot) {
	step := s.At - m.at
	if m.at != 0 && step < leastStep {
		return
	}
	now := make(map[Key]*trend, len(s.Rows))
	for i := range s.Rows {
		row := &s.Rows[i]
		t := m.trends[row.Key]
		if t == nil {
			t = new(trend)
		}
		if m.at != 0 {
			t.add(row, step)
		}
		t.time, t.waits = row.Time, row.Waits
		now[row.Key] = t
	}
	m.trends, m.at = now, s.At
}

// add adds the rate of a time. A row may be other locks than before, which were waited for
// less.
func (t *trend) add(row *Row, step tracefs.Time) {
	t.known = true
	t.rate = float64(max(row.Time-t.time, 0)) / float64(step)
	t.freq = float64(max(row.Waits-t.waits, 0)) * float64(time.Second) / float64(step)
	t.rates = append(t.rates, t.rate)
	if len(t.rates) > maxRates {
		t.rates = t.rates[len(t.rates)-maxRates:]
	}
}

// rows returns the rows to show, in order.
func (m *model) rows() []*Row {
	if m.snap == nil {
		return nil
	}
	var list []*Row
	for i := range m.snap.Rows {
		if row := &m.snap.Rows[i]; (m.all || row.Lock) && m.matches(row) {
			list = append(list, row)
		}
	}
	slices.SortStableFunc(list, func(x, y *Row) int {
		return cmp.Or(cmp.Compare(m.weight(y), m.weight(x)), cmp.Compare(y.Time, x.Time), strings.Compare(string(x.Key), string(y.Key)))
	})
	return list
}

// weight returns what a row is sorted by.
func (m *model) weight(row *Row) float64 {
	t := m.trends[row.Key]
	switch {
	case m.sort == byTotal:
		return float64(row.Time)
	case m.sort == byMax:
		return float64(row.Max)
	case m.sort == byThreads:
		return float64(row.Threads)
	case t == nil:
		return 0
	case m.sort == byFreq:
		return t.freq
	}
	return t.rate
}

// matches reports whether the filter lets a row through.
func (m *model) matches(row *Row) bool {
	if m.filter == "" {
		return true
	}
	all := strings.Join([]string{row.Kind, row.Where, row.Process, row.Code, row.Owner, row.Waker, row.WakerCode}, "\n")
	return strings.Contains(strings.ToLower(all), strings.ToLower(m.filter))
}

// clamp keeps the selection on a row, and the text in the window.
func (m *model) clamp() {
	rows := m.rows()
	if i := slices.IndexFunc(rows, func(r *Row) bool { return r.Key == m.selected }); i >= 0 {
		m.line = i
	}
	m.line = max(min(m.line, len(rows)-1), 0)
	if len(rows) > 0 {
		m.selected = rows[m.line].Key
	}
	m.scroll = max(min(m.scroll, len(m.lockText())-m.room()), 0)
}

// room returns how many lines there are for rows or text.
func (m *model) room() int { return max(m.height-linesAround, 1) }
