package diff

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Norm is what waiting is divided by before it is compared.
type Norm string

// The norms.
const (
	PerSecond Norm = "second" // of trace
	PerWait   Norm = "wait"
	Total     Norm = "total" // not divided: of runs that do the same work
)

// Options are how reports are compared.
type Options struct {
	Norm Norm
	// Threshold is the smallest difference that counts, as a part of the larger value.
	Threshold float64
}

// DefaultThreshold is more than runs of the same program differ by most often.
const DefaultThreshold = 0.25

// Check reports an option that is none.
func (o *Options) Check() error {
	if !slices.Contains([]Norm{PerSecond, PerWait, Total}, o.Norm) {
		return fmt.Errorf("cannot compare per %.40q (one of second, wait, total)", o.Norm)
	}
	if !(o.Threshold >= 0 && o.Threshold < 1) {
		return errors.New("the threshold must be from 0 % to below 100 %")
	}
	return nil
}

// level is the chance that reports without a difference are said to have one.
const level = 0.01

// State is what has become of a lock.
type State string

// The states.
const (
	More      State = "more"
	Less      State = "less"
	New       State = "new"
	Gone      State = "gone"
	Same      State = "same"        // or no difference beyond chance
	Uncertain State = "not certain" // of what is not known in a report
)

// Change is a lock, or a place that waits for locks, in both reports.
type Change struct {
	State State
	Class string // locks or condvars
	// Program is the program that waits, "" if there is one only. Variable is the lock's
	// name, "" if unknown; Places are the functions that wait, those with the most time
	// first.
	Program, Variable string
	Places            []string
	Sides             [2]Side
	// Why it is not certain, "" if it is.
	Why string
}

// Side is what one report has of a change. Times are in nanoseconds, or ticks.
type Side struct {
	Kind      string
	Value     float64 // by the norm
	Error     float64 // standard error of Value
	Low, High float64 // bounds of Value by what is lost or unknown
	Time      float64
	Waits     float64
	PerSecond float64 // waits
	P99       float64 // 0 if unknown
	Futexes   int
	Holder    string // threads that held it the most
	Held      float64
}

// Diff is the difference of two reports.
type Diff struct {
	Options Options
	Ticks   bool
	// Changes are what differs, or may: certain ones first, the largest first. Locks come
	// before other futexes.
	Changes []*Change
	// Lengths are of the traces, Waited what threads waited for locks, by the norm.
	Lengths, Waited [2]float64
	Compared        int
	// Alien is the time of waits that cannot be aligned, by the norm.
	Alien [2]float64
	// LockUps are the verdicts of reports whose threads lock up, "" for others.
	LockUps [2]string
	// Limits say what each report lacks.
	Limits []string
}

// Differs reports whether there is a difference that is certain.
func (d *Diff) Differs() bool {
	return d.LockUps[0] != d.LockUps[1] || slices.ContainsFunc(d.Changes, func(c *Change) bool { return c.State != Uncertain && c.State != Same })
}

// Compare returns the difference from the first report to the second one. It fails if they
// have different units.
func Compare(a, b *Report, opt Options) (*Diff, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	if a.doc.TimeUnit != b.doc.TimeUnit {
		return nil, errors.New("one report has times in seconds, the other one in ticks of its clock")
	}
	reports := [2]*Report{a, b}
	d := &Diff{Options: opt, Ticks: a.doc.TimeUnit == "ticks"}
	al := align(reports)
	c := comparer{opt: opt, reports: reports, aligner: al, groups: al.sorted()}
	for i, r := range reports {
		d.Lengths[i] = float64(r.doc.length())
		d.Waited[i] = c.normal(i, float64(r.doc.Contended.Total)+float64(r.doc.Contended.Open), float64(r.doc.Contended.Waits))
		for _, s := range &al.alien[i] {
			d.Alien[i] += c.normal(i, s.time, s.waits)
		}
		if k := r.doc.Verdict.Kind; lockUp(k) {
			d.LockUps[i] = k
		}
	}
	d.Compared = len(c.groups)
	for _, g := range c.groups {
		if x := c.change(g); x.State != Same {
			d.Changes = append(d.Changes, x)
		}
	}
	slices.SortStableFunc(d.Changes, func(x, y *Change) int {
		return cmp.Or(cmp.Compare(x.order(), y.order()), cmp.Compare(y.size(), x.size()))
	})
	d.Limits = c.limits()
	return d, nil
}

// lockUp reports whether a verdict is that threads hang for ever.
func lockUp(kind string) bool {
	return slices.Contains([]string{"deadlock", "dead-owner", "lost-wake-up"}, kind)
}

func (c *Change) order() int {
	n := 0
	if c.State == Uncertain {
		n = 2
	}
	if c.Class != locks.String() {
		n++
	}
	return n
}

func (c *Change) size() float64 { return math.Abs(c.Sides[0].Value - c.Sides[1].Value) }

// comparer decides what differs.
type comparer struct {
	opt     Options
	reports [2]*Report
	aligner *aligner
	groups  []*group
}

// normal divides a time by the norm.
func (c *comparer) normal(i int, time, waits float64) float64 {
	switch {
	case c.opt.Norm == Total:
		return time
	case c.opt.Norm == PerSecond:
		return time / float64(c.reports[i].doc.length())
	case waits == 0:
		return 0
	}
	return time / waits
}

// change compares a group.
func (c *comparer) change(g *group) *Change {
	out := &Change{Class: g.key.class.String(), Program: g.key.program, Variable: g.variable(), Places: g.places(), State: Same}
	var e [2]estimate
	unknown := false
	for i := range g.sides {
		s := &g.sides[i]
		e[i] = s.estimate(c.opt.Norm, &c.reports[i].doc)
		out.Sides[i] = c.side(i, s, e[i])
		rest := c.rest(i, g.key)
		x := &out.Sides[i]
		x.Low, x.High = c.normal(i, s.low, s.waits), c.normal(i, s.time+min(s.hidden, c.reports[i].doc.hidden())+rest, s.waits)
		if c.opt.Norm == PerWait && s.waits == 0 && rest+s.hidden > 0 {
			x.High = math.Inf(1)
		}
		unknown = unknown || x.High > x.Low || !c.bounded(i)
	}
	x, y := &out.Sides[0], &out.Sides[1]
	chance := margin(e[0], e[1], level/float64(len(c.groups)))
	if by := math.Abs(x.Value - y.Value); by < c.opt.Threshold*max(x.Value, y.Value) || by <= chance {
		return out
	}
	switch {
	case unknown && (!c.bounded(0) || !c.bounded(1) || max(x.Low-y.High, y.Low-x.High) <= chance):
		out.State, out.Why = Uncertain, c.why(g.key)
	case !g.sides[0].used():
		out.State = New
	case !g.sides[1].used():
		out.State = Gone
	case x.Value < y.Value:
		out.State = More
	default:
		out.State = Less
	}
	return out
}

func (c *comparer) side(i int, s *side, e estimate) Side {
	out := Side{Value: e.value, Error: math.Sqrt(e.variance), Time: s.time, Waits: s.waits, Futexes: s.futexes, P99: s.tail()}
	out.PerSecond = s.waits / float64(c.reports[i].doc.length()) * 1e9
	out.Kind, _ = most(s.kinds)
	out.Holder, out.Held = most(s.holders)
	return out
}

// tail returns what one wait of 100 exceeds: of a whole row exactly, else by the histogram,
// whose classes double.
func (s *side) tail() float64 {
	if s.p99 > 0 || s.rows == 1 {
		return s.p99
	}
	count := 0.0
	for _, n := range s.histogram {
		count += n
	}
	sorted := sortedKeys(s.histogram)
	left := count / 100
	for i := len(sorted) - 1; i >= 0; i-- {
		from := sorted[i]
		if n := s.histogram[from]; n > 0 && left < n {
			return float64(max(from, 1)) * math.Exp2(1-left/n)
		}
		left -= s.histogram[from]
	}
	return 0
}

// variable returns the name of the lock. Of one that is aligned by its place it is known only
// if one report alone has it, as the other report's may be another one.
func (g *group) variable() string {
	if i := g.only(); g.key.variable == "" && i >= 0 {
		if name, part := most(g.sides[i].names); part == 1 {
			return name
		}
	}
	return g.key.variable
}

// places returns where threads wait, most of the time first.
func (g *group) places() []string {
	if g.key.variable == "" {
		if g.key.place == "" {
			return nil
		}
		return append([]string{g.key.place}, g.joins...)
	}
	sum := make(map[string]float64)
	for i := range g.sides {
		addShare(sum, g.sides[i].places, 1)
	}
	delete(sum, "")
	return slices.SortedFunc(slices.Values(sortedKeys(sum)), func(x, y string) int { return cmp.Or(cmp.Compare(sum[y], sum[x]), strings.Compare(x, y)) })
}

// bounded reports whether it is known how much a report can lack.
func (c *comparer) bounded(i int) bool {
	l := &c.reports[i].doc.Loss
	return l.Gaps == 0 && l.Refused == 0 || l.Bounded
}

// rest returns how long waits of a report can be for, which has them not by themselves: of
// locks that it does not list, and what cannot be aligned.
func (c *comparer) rest(i int, k key) float64 {
	d := &c.reports[i].doc
	return d.unlisted(k.class) + c.aligner.alien[i][k.class].time
}

// hidden returns how much longer threads can have waited for all locks together.
func (d *document) hidden() float64 {
	if d.All.High == nil {
		return math.Inf(1)
	}
	return max(float64(*d.All.High)-float64(d.All.Total)-float64(d.All.Open), 0)
}

// unlisted returns the time of waits for locks that a report does not list.
func (d *document) unlisted(c class) float64 {
	list, whole, count := d.Locks, &d.Contended, d.LockCount
	if c == signals {
		list, whole, count = d.Condvars, &d.Signalled, d.SignalCount
	}
	others := d.OtherLocks
	if c == signals {
		others = d.OtherSignals
	}
	if count <= int64(len(list)) && others == nil {
		return 0
	}
	left := float64(whole.Total) + float64(whole.Open)
	for i := range list {
		left -= float64(list[i].Total) + float64(list[i].Open)
	}
	return max(left, 0)
}
