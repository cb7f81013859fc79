package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

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
		return noTables(f.Dir)
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
	device, os, kernel                 string
	number                             int32
	reports, duplicates, events, waits int64
	lost, waited                       total
}

// total is a sum of whole numbers, which 64 bits may not have: many reports can say that they are of
// one device. The number itself has the lowest 64 bits of it then.
type total struct {
	n     int64
	about float64
}

func (t *total) add(n int64) {
	t.n += n
	t.about += float64(n)
}

// whole returns the sum, fleet.MostNS if it is more.
func (t *total) whole() int64 {
	if t.about >= fleet.MostNS {
		return fleet.MostNS
	}
	return t.n
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
	sum.lost.add(d.Lost)
	sum.waits += d.Waits
	sum.waited.add(d.WaitedNS)
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
		sum.waited.add(-*s.NS)
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
