//go:build !device

package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// limits bound the time line, and the memory to make it.
type limits struct {
	threads int // that have a line
	// waits is how many are drawn, the longest ones: for locks, and for what is
	// none.
	waits [2]int
	lost  int // times in which records were lost
	// slots is into how many parts the trace is cut: in each of them, the waits
	// of a thread that are not drawn one by one are summed up.
	slots int
	seen  int // threads that are kept apart, to find the longest waits
}

var defaultLimits = limits{threads: 100, waits: [2]int{16000, 4000}, lost: 1000, slots: 400, seen: 1 << 16}

// timeLines are the time line as the page reads it. Times count from the beginning
// of the trace.
type timeLines struct {
	Unit string `json:"unit"`
	// Start is the time stamp of the beginning, a text: JavaScript does not keep
	// all digits of a number.
	Start string       `json:"start"`
	End   tracefs.Time `json:"end"`
	Slots int          `json:"slots"`
	Lines []threadLine `json:"lines"`
	// Stacks are lists of Names, innermost function first.
	Stacks [][]int32 `json:"stacks"`
	Names  []string  `json:"names"`
	Lost   []row     `json:"lost"`
	Chains []chainOf `json:"chains"`
	// Sampled and Holds are where owners computed, of locks and of single holds.
	Sampled []sampledLock `json:"sampled"`
	Holds   []sampledHold `json:"holds"`
	// Left out are: threads and their waits, times in which records were
	// lost, waits that did not sleep. AtLeast is set if there are more threads.
	MoreThreads int          `json:"moreThreads"`
	AtLeast     bool         `json:"atLeast"`
	MoreWaits   int64        `json:"moreWaits"`
	MoreTime    tracefs.Time `json:"moreTime"`
	MoreLost    int64        `json:"moreLost"`
	Awake       int64        `json:"awake"`
}

// threadLine is a thread. Waits are all of them, drawn or not.
type threadLine struct {
	Name    string       `json:"name"`
	Process int32        `json:"process"` // 0 if unknown
	Waits   int64        `json:"waits"`
	Time    tracefs.Time `json:"time"`
	Bars    []row        `json:"bars"`
	Rest    []row        `json:"rest"`
}

// row is a list of numbers, of a fixed meaning each; JSON objects would be large.
//
// A bar is a wait: from when, how long, row of the table or -1, result, flags, stack;
// and if the thread that ended it is known, that thread's name, its line or -1, and
// when.
//
// A slot sums up waits that are not drawn: the part of the trace in which they ended,
// 0 for locks or 1 for other futexes, how many, and how long they had lasted.
//
// A time in which records were lost is from when, how long, CPU, ring buffer, how many.
type row = []int64

// Flags of a bar.
const (
	barResumed = 1 << iota // goes on with what a signal broke off
	barBefore              // its beginning is not in the trace
	barSure                // the thread that ended it is certain
	barDoubt               // it has not ended, or its end is lost
)

// waitLines makes the time line. The waits are read twice: the first time to find
// the threads that waited longest.
func waitLines(a *futex.Analysis, r *futex.Report, v futex.View, t *table, lim limits) (*timeLines, error) {
	c := &collector{limits: lim, r: r, table: t, threads: make(map[threadKey]*waiter), words: newWords(), doubt: make(map[int32]bool)}
	for _, b := range r.Blocked {
		c.doubt[b.TID] = b.Doubt
	}
	for section := range c.longest {
		c.longest[section] = longest[keptWait]{most: lim.waits[section], drop: c.sumUp}
	}
	c.gaps = longest[futex.LostTime]{most: lim.lost, drop: func(*futex.LostTime) { c.out.MoreLost++ }}
	c.out = timeLines{Unit: t.Unit, Start: strconv.FormatInt(int64(r.Start), 10), End: max(r.End-r.Start, 0), Slots: lim.slots,
		Lines: []threadLine{}, Lost: []row{}, Chains: []chainOf{}, Sampled: []sampledLock{}, Holds: []sampledHold{}}
	if err := a.WaitCalls(r, v, c.count, func(*futex.LostTime) error { return nil }); err != nil {
		return nil, err
	}
	c.choose()
	if err := a.WaitCalls(r, v, c.keep, c.lost); err != nil {
		return nil, err
	}
	c.finish()
	return &c.out, nil
}

// collector makes the time line.
type collector struct {
	limits
	r       *futex.Report
	table   *table
	threads map[threadKey]*waiter
	shown   []*waiter      // in the order of their lines
	doubt   map[int32]bool // threads of which it is not certain that they still wait
	longest [2]longest[keptWait]
	last    keptWait // that was read
	gaps    longest[futex.LostTime]
	words   *words
	out     timeLines
}

type threadKey struct{ pid, tid int32 }

// waiter is a thread that waits.
type waiter struct {
	threadKey
	comm  string
	waits int64
	time  [2]tracefs.Time // for locks, and for others
	line  int             // -1 for none
	bars  []row
	rest  map[[2]int64]row // by part of the trace and section
}

// keptWait is a wait that is drawn if it is among the longest.
type keptWait struct {
	waiter *waiter
	futex.WaitCall
}

// duration returns how long a call has waited, until the end of the trace if it is
// open.
func (c *collector) duration(w *futex.WaitCall) tracefs.Time {
	switch w.Result {
	case futex.NoReturn:
		return 0
	case futex.Open:
		return max(c.r.End-w.From, 0)
	}
	return max(w.To-w.From, 0)
}

// section is 0 for waits for locks and for unknown ones, 1 for others.
func section(w *futex.WaitCall) int {
	if w.Lock != nil && !w.Lock.Contends() {
		return 1
	}
	return 0
}

// count counts a wait for its thread.
func (c *collector) count(w *futex.WaitCall) error {
	if !w.Slept() && w.Result != futex.NoReturn {
		c.out.Awake++
		return nil
	}
	key := threadKey{w.PID, w.TID}
	th := c.threads[key]
	if th == nil {
		if len(c.threads) >= c.seen {
			c.out.AtLeast = true
			c.out.MoreWaits++
			c.out.MoreTime += c.duration(w)
			return nil
		}
		th = &waiter{threadKey: key, line: -1}
		c.threads[key] = th
	}
	if w.Comm != "" {
		th.comm = w.Comm
	}
	th.waits++
	if w.Lock != nil && section(w) == 0 {
		th.time[0] += c.duration(w)
	} else {
		th.time[1] += c.duration(w)
	}
	return nil
}

// choose gives the threads that waited longest a line each.
func (c *collector) choose() {
	all := slices.SortedFunc(maps.Values(c.threads), func(x, y *waiter) int {
		return cmp.Or(cmp.Compare(y.time[0], x.time[0]), cmp.Compare(y.time[1], x.time[1]), cmp.Compare(y.waits, x.waits),
			cmp.Compare(x.tid, y.tid), cmp.Compare(x.pid, y.pid))
	})
	c.shown = all[:min(len(all), c.limits.threads)]
	for i, th := range c.shown {
		th.line = i
		th.rest = make(map[[2]int64]row)
	}
	for _, th := range all[len(c.shown):] {
		c.out.MoreThreads++
		c.out.MoreWaits += th.waits
		c.out.MoreTime += th.time[0] + th.time[1]
	}
}

// keep keeps a wait of a thread that has a line.
func (c *collector) keep(w *futex.WaitCall) error {
	th := c.threads[threadKey{w.PID, w.TID}]
	if th != nil && th.line >= 0 && (w.Slept() || w.Result == futex.NoReturn) {
		c.last = keptWait{th, *w}
		c.longest[section(w)].add(&c.last, c.duration(w))
	}
	return nil
}

func (c *collector) lost(l *futex.LostTime) error {
	c.gaps.add(l, l.To-l.From)
	return nil
}

// sumUp adds a wait to the ones that are not drawn.
func (c *collector) sumUp(w *keptWait) {
	d := c.duration(&w.WaitCall)
	at := int64(0)
	if c.out.End > 0 {
		at = int64(float64(w.From+d-c.r.Start) / float64(c.out.End) * float64(c.slots))
	}
	key := [2]int64{min(max(at, 0), int64(c.slots)-1), int64(section(&w.WaitCall))}
	s := w.waiter.rest[key]
	if s == nil {
		s = row{key[0], key[1], 0, 0}
		w.waiter.rest[key] = s
	}
	s[2]++
	s[3] += int64(d)
}

// finish makes the lines of what has been kept.
func (c *collector) finish() {
	for section := range c.longest {
		c.longest[section].each(func(w *keptWait) { w.waiter.bars = append(w.waiter.bars, c.bar(&w.WaitCall)) })
	}
	for _, th := range c.shown {
		rest := slices.Collect(maps.Values(th.rest))
		sorting.Func(th.bars, slices.Compare)
		sorting.Func(rest, slices.Compare)
		c.out.Lines = append(c.out.Lines, threadLine{Name: short(phrase.Thread(th.tid, th.comm)), Process: max(th.pid, 0), Waits: th.waits,
			Time: th.time[0] + th.time[1], Bars: append([]row{}, th.bars...), Rest: append([]row{}, rest...)})
	}
	c.gaps.each(func(l *futex.LostTime) {
		from := max(l.From, c.r.Start)
		c.out.Lost = append(c.out.Lost, row{int64(from - c.r.Start), int64(max(l.To-from, 0)), int64(l.CPU), int64(l.Buffer), int64(min(l.Records, 1<<53))})
	})
	sorting.Func(c.out.Lost, slices.Compare)
	c.chains()
	c.samples()
	c.out.Names, c.out.Stacks = c.words.names, c.words.stacks
}

func (c *collector) flagsOf(w *futex.WaitCall) (flags int64) {
	if w.Resumed {
		flags |= barResumed
	}
	if w.Before {
		flags |= barBefore
	}
	if w.Waker.Sure {
		flags |= barSure
	}
	if w.Result == futex.Open && c.doubt[w.TID] {
		flags |= barDoubt
	}
	return flags
}

// bar returns a wait as it is drawn.
func (c *collector) bar(w *futex.WaitCall) row {
	b := row{int64(w.From - c.r.Start), int64(c.duration(w)), int64(c.table.row(w.Lock)) - 1, int64(w.Result), c.flagsOf(w), int64(c.words.stack(w.Stack, w.Missing))}
	if k := &w.Waker; k.TID != 0 {
		line := -1
		if th := c.threads[threadKey{k.PID, k.TID}]; th != nil {
			line = th.line
		}
		b = append(b, int64(c.words.name(phrase.Thread(k.TID, k.Comm))), int64(line), int64(k.At-c.r.Start))
	}
	return b
}
