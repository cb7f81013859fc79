package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/internal/query"
	"ustack/render"
)

// maxRows is how many samples are answered from here: beyond that an engine is faster, and
// has the memory.
const maxRows = 10_000_000

// fleetCommand is "ustack fleet".
func fleetCommand(args []string, std command.Streams) error {
	f, err := fleet.ParseAsk(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	return f.To.Stream(std.Out, func(out io.Writer) error {
		out = render.Output(out)
		if f.SQL {
			return printStatement(f, out)
		}
		if f.Server != nil {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
			defer stop()
			return askServer(ctx, f, out)
		}
		return answer(f, out)
	})
}

// printStatement prints the question as SQL.
func printStatement(f *fleet.Ask, out io.Writer) error {
	w := bufio.NewWriter(out)
	if f.Server != nil {
		_, _ = w.WriteString(remoteStatement(f, inline(f)) + ";\n") // Flush reports the error
		return w.Flush()
	}
	functions, err := functionTables(f.Dir)
	if err != nil {
		return err
	}
	if len(functions) > 0 {
		f.Functions = filepath.Join(functions[len(functions)-1].dir, tableFunctions+tableSuffix)
	}
	parts, err := partsOf(f.Dir)
	if err != nil {
		return err
	}
	if f.TakesSums() {
		if f.Sums, err = haveSums(parts); err != nil {
			return err
		}
	}
	if f.Question == fleet.Devices { // the only one that takes what older tables lack
		if f.Older, err = areOlder(parts); err != nil {
			return err
		}
	}
	_, _ = w.WriteString(f.Statement())
	return w.Flush()
}

// answer answers a question.
func answer(f *fleet.Ask, out io.Writer) error {
	parts, err := partsOf(f.Dir)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("no tables in %s: ustack export -o %s REPORT... makes them", f.Dir, f.Dir)
	}
	a, err := newAnswer(f, parts)
	if err != nil {
		return err
	}
	columns, rows, err := a.top()
	switch f.Question {
	case fleet.Devices:
		columns, rows = a.devices()
	case fleet.Diff:
		columns, rows, err = a.diff()
	case fleet.Causes:
		columns, rows, err = a.causes(parts)
	case fleet.Estimate:
		columns, rows, err = a.estimate()
	}
	if err != nil {
		return err
	}
	return write(f, out, columns, rows)
}

// write writes rows.
func write(f *fleet.Ask, out io.Writer, columns []string, rows [][]any) error {
	w, err := query.NewWriter(out, f.Format, columns)
	if err != nil {
		return err
	}
	for _, row := range rows[:min(len(rows), f.Top)] {
		if err := w.Row(row); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
	}
	return w.Close()
}

// answers are what a question is answered from.
type answers struct {
	f      *fleet.Ask
	known  map[string]*deviceSum      // by device
	os     map[uint64]string          // by report
	part   map[uint64]string          // likewise
	inPart map[string]bool            // parts with reports of recordings with several of the same time
	of     map[string]map[string]bool // the devices of each operating system
	locks  map[uint64]*lockSum
	same   *repeats
	// lengths are how many waits for a lock took at most a time, if the answer is from sums.
	lengths map[uint64]map[int64]int64
	// gathered is for the question causes.
	gathered *causes
	// estimated is for the question estimate.
	estimated estimates
	n         int
}

// deviceSum sums up the reports of a device.
type deviceSum struct {
	device, os, kernel                               string
	number                                           int32
	reports, duplicates, events, lost, waits, waited int64
}

// lockSum sums up a lock.
type lockSum struct {
	key                  uint64
	total                [2]float64 // of all, or for diff of A and of B
	waits                int64
	times                []int64 // empty if there are lengths
	lengths              map[int64]int64
	devices              [2]numbers
	kind, name, path, id *string
	offset               *int64
	ran                  *bool
	function             *string // of the site
}

func newAnswer(f *fleet.Ask, parts []string) (*answers, error) {
	a := &answers{
		f: f, known: make(map[string]*deviceSum), os: make(map[uint64]string), part: make(map[uint64]string), inPart: make(map[string]bool), of: make(map[string]map[string]bool), locks: make(map[uint64]*lockSum), same: newRepeats(),
		lengths: make(map[uint64]map[int64]int64), gathered: newCauses(), estimated: estimates{locks: make(map[uint64]*estimated)},
	}
	var err error
	if f.TakesSums() {
		if f.Sums, err = haveSums(parts); err != nil {
			return nil, err
		}
	}
	for _, part := range parts {
		if err := eachRow(part, tableDevices, func(d *deviceRow) error {
			a.part[d.Report] = part
			return a.device(d)
		}); err != nil {
			return nil, err
		}
	}
	again := a.same.any()
	if again {
		for report, part := range a.part {
			a.inPart[part] = a.inPart[part] || a.same.isSeveral(report)
		}
		if err := a.eachSample(parts, a.same.sample); err != nil {
			return nil, err
		}
	}
	if f.Sums {
		err = a.eachSum(parts)
	}
	if err != nil || (f.Question == fleet.Devices || f.Sums) && !again {
		return a, err
	}
	return a, a.eachSample(parts, a.sample)
}

// eachSum takes the sums of parts.
func (a *answers) eachSum(parts []string) error {
	for _, part := range parts {
		if err := eachRow(part, tableSums, a.sum); err != nil {
			return err
		}
		if a.f.Question != fleet.Top {
			continue
		}
		if err := eachRow(part, tableDurations, a.duration); err != nil {
			return err
		}
	}
	return nil
}

// eachSample takes the samples of parts, with sums only those of parts that need it.
func (a *answers) eachSample(parts []string, do func(*sampleRow) error) error {
	for _, part := range parts {
		if a.f.Sums && !a.inPart[part] {
			continue
		}
		if err := eachRow(part, tableSamples, do); err != nil {
			return err
		}
	}
	return nil
}

// device adds a report.
func (a *answers) device(d *deviceRow) error {
	if _, twice := a.os[d.Report]; twice {
		return fmt.Errorf("the report %.80q is there twice: were tables of another directory copied here?", d.Name)
	}
	sum := a.known[d.Device]
	if sum == nil {
		sum = &deviceSum{device: d.Device, os: d.OS, kernel: d.Kernel, number: int32(len(a.known))}
		a.known[d.Device] = sum
	}
	sum.os, sum.kernel = min(sum.os, d.OS), min(sum.kernel, d.Kernel)
	a.same.device(d)
	sum.reports++
	sum.duplicates += d.Duplicates
	sum.events += d.Events
	sum.lost += d.Lost
	sum.waits += d.Waits
	sum.waited += d.WaitedNS
	a.os[d.Report] = d.OS
	if a.of[d.OS] == nil {
		a.of[d.OS] = make(map[string]bool)
	}
	a.of[d.OS][d.Device] = true
	return nil
}

// count counts a row that was read.
func (a *answers) count() error {
	if a.n++; a.n > maxRows {
		return fmt.Errorf("more than %d rows: ask an engine, --sql prints the question", maxRows)
	}
	return nil
}

// errForged: no export has written such tables.
var errForged = errors.New("the tables do not agree with each other: these are not those that ustack export has written")

// sample adds a sample.
func (a *answers) sample(s *sampleRow) error {
	if err := a.count(); err != nil {
		return err
	}
	sum := a.known[s.Device]
	if sum == nil {
		return fmt.Errorf("a sample of the device %.80q: %w", s.Device, errForged)
	}
	if a.same.again(s) {
		sum.waits--
		sum.waited -= *s.NS
		a.length(s.LockKey, s.IsLock, atMost(*s.NS), -1)
		return nil
	}
	if a.f.Sums && !a.same.isSeveral(s.Report) {
		return nil
	}
	if s.NS == nil || s.LockKey == nil || a.f.Locks && (s.IsLock == nil || !*s.IsLock) {
		return nil
	}
	switch {
	case a.f.Question == fleet.Causes:
		return a.gathered.sample(s)
	case a.f.Question == fleet.Estimate:
		return a.estimated.sample(s, sum.number, a.same.of[s.Report])
	}
	row := newSum(s)
	row.add(s)
	if l := a.add(row); l != nil && !a.f.Sums {
		l.times = append(l.times, *s.NS)
	}
	return nil
}

// sum adds waits of a report that has none of those of other reports.
func (a *answers) sum(row *sumRow) error {
	if err := a.count(); err != nil {
		return err
	}
	if a.known[row.Device] == nil {
		return fmt.Errorf("a sum of the device %.80q: %w", row.Device, errForged)
	}
	if !a.same.isSeveral(row.Report) && (!a.f.Locks || row.IsLock != nil && *row.IsLock) {
		a.add(row)
	}
	return nil
}

// duration adds waits of a part, also those that count in another one: see sample.
func (a *answers) duration(row *durationRow) error {
	a.length(&row.LockKey, row.IsLock, row.AtMostNS, row.Waits)
	return a.count()
}

// length adds n waits of a duration, if it is wanted.
func (a *answers) length(key *uint64, is *bool, atMost, n int64) {
	if !a.f.Sums || key == nil || a.f.Locks && (is == nil || !*is) {
		return
	}
	if a.lengths[*key] == nil {
		a.lengths[*key] = make(map[int64]int64)
	}
	a.lengths[*key][atMost] += n
}

// add adds waits and returns their lock, nil if they are not wanted.
func (a *answers) add(row *sumRow) *lockSum {
	side := 0
	if a.f.Question == fleet.Diff {
		switch a.os[row.Report] {
		case a.f.A:
		case a.f.B:
			side = 1
		default:
			return nil
		}
	}
	l := a.locks[row.LockKey]
	if l == nil {
		l = &lockSum{key: row.LockKey}
		a.locks[l.key] = l
	}
	l.add(row, a.known[row.Device].number, side)
	return l
}

// add adds waits of a device.
func (l *lockSum) add(row *sumRow, device int32, side int) {
	l.total[side] += float64(row.NS) * row.Weight
	l.waits += row.Waits
	l.devices[side].add(device)
	least(&l.kind, row.LockKind)
	least(&l.name, row.LockName)
	if row.LockName == nil {
		least(&l.path, row.SitePath)
		least(&l.id, row.SiteBuildID)
		least(&l.offset, row.SiteOffset)
	}
	if row.SiteRan != nil && (l.ran == nil || *l.ran) {
		l.ran = row.SiteRan
	}
}

// where are the columns that say which lock it is.
func (l *lockSum) where() []any {
	if l.name != nil { // threads may wait for it at several sites
		return []any{textOf(l.kind), *l.name, nil, nil, nil, nil}
	}
	return []any{textOf(l.kind), textOf(l.name), textOf(l.path), textOf(l.id), numberOf(l.offset), textOf(l.function)}
}

func textOf(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func numberOf(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}

// first returns the locks with most of something, as many as are wanted, with their functions.
func (a *answers) first(of func(*lockSum) float64) ([]*lockSum, error) {
	var list []*lockSum
	for _, l := range a.locks {
		slices.Sort(l.times)
		if l.lengths = a.lengths[l.key]; a.f.Sums && a.f.Question == fleet.Top && l.waits != countOf(l.lengths) {
			return nil, fmt.Errorf("%d waits and %d durations of a lock: %w", l.waits, countOf(l.lengths), errForged)
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(x, y *lockSum) int { return cmp.Or(cmp.Compare(of(y), of(x)), cmp.Compare(x.key, y.key)) })
	list = list[:min(len(list), a.f.Top)]
	return list, nameSites(a.f.Dir, list)
}

// nameSites gives locks the functions of their sites, as far as they have been named.
func nameSites(dir string, locks []*lockSum) error {
	tables, err := functionTables(dir)
	if err != nil || len(tables) == 0 {
		return err
	}
	at := make(map[string]map[place][]*lockSum)
	for _, l := range locks {
		if l.name != nil || l.id == nil || l.offset == nil || l.ran == nil {
			continue
		}
		if at[*l.id] == nil {
			at[*l.id] = make(map[place][]*lockSum)
		}
		p := place{*l.offset, *l.ran}
		at[*l.id][p] = append(at[*l.id][p], l)
	}
	return eachRow(tables[len(tables)-1].dir, tableFunctions, func(f *functionRow) error {
		for _, l := range at[f.BuildID][place{f.Offset, f.Ran}] {
			l.function = f.Function
		}
		return nil
	})
}

// countOf returns how many waits there are of all durations.
func countOf(lengths map[int64]int64) (n int64) {
	for _, waits := range lengths {
		n += waits
	}
	return n
}

// p99 returns the smallest time that is not shorter than 99 of 100.
func (l *lockSum) p99() int64 {
	const of, all = 99, 100
	if l.lengths == nil {
		return l.times[(of*len(l.times)+all-1)/all-1]
	}
	n, below := countOf(l.lengths), int64(0)
	for _, ns := range slices.Sorted(maps.Keys(l.lengths)) {
		if below += l.lengths[ns]; all*below >= of*n {
			return ns
		}
	}
	return 0
}

// p99 returns that of a lock, as durations have it, if it is not to be exact.
func (a *answers) p99(l *lockSum) int64 {
	if a.f.Exact {
		return l.p99()
	}
	return atMost(l.p99())
}

// wholeNS returns a total as a whole number.
func wholeNS(total float64) int64 { return int64(math.Round(min(total, fleet.MostNS))) }

// top answers which locks cost most.
func (a *answers) top() (columns []string, rows [][]any, err error) {
	columns = columnsOfAnswer(fleet.Top)
	if a.f.Question != fleet.Top {
		return columns, nil, nil
	}
	of := map[fleet.Order]func(*lockSum) float64{
		fleet.ByTotal:   func(l *lockSum) float64 { return float64(wholeNS(l.total[0])) },
		fleet.ByDevices: func(l *lockSum) float64 { return float64(l.devices[0].count()) },
		fleet.ByP99:     func(l *lockSum) float64 { return float64(a.p99(l)) },
		fleet.ByWaits:   func(l *lockSum) float64 { return float64(l.waits) },
	}[a.f.By]
	list, err := a.first(of)
	for _, l := range list {
		const percent, tenths = 100, 10
		share := math.Round(percent*tenths*float64(l.devices[0].count())/float64(len(a.known))) / tenths
		rows = append(rows, append([]any{wholeNS(l.total[0]), l.waits, l.devices[0].count(), share, a.p99(l)}, l.where()...))
	}
	return columns, rows, err
}

// devices answers which devices there are.
func (a *answers) devices() (columns []string, rows [][]any) {
	columns = columnsOfAnswer(fleet.Devices)
	var list []*deviceSum
	for _, d := range a.known {
		list = append(list, d)
	}
	slices.SortFunc(list, func(x, y *deviceSum) int {
		return cmp.Or(cmp.Compare(y.waited, x.waited), cmp.Compare(x.device, y.device))
	})
	for _, d := range list {
		rows = append(rows, []any{d.device, d.os, d.kernel, d.reports, d.duplicates, d.events, d.lost, d.waits, d.waited})
	}
	return columns, rows
}

// diff answers what is waited for more in one operating system than in another, for each
// device of these.
func (a *answers) diff() (columns []string, rows [][]any, err error) {
	columns = columnsOfAnswer(fleet.Diff)
	var n [2]float64
	for _, side := range []struct {
		os    string
		count *float64
	}{{a.f.A, &n[0]}, {a.f.B, &n[1]}} {
		if *side.count = float64(len(a.of[side.os])); *side.count == 0 {
			err = errors.Join(err, noSystem(side.os))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	each := func(l *lockSum, side int) int64 { return wholeNS(l.total[side] / n[side]) }
	list, err := a.first(func(l *lockSum) float64 { return float64(each(l, 1) - each(l, 0)) })
	for _, l := range list {
		rows = append(rows, append([]any{each(l, 0), each(l, 1), l.devices[0].count(), l.devices[1].count()}, l.where()...))
	}
	return columns, rows, err
}
