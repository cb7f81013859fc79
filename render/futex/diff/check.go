package diff

import (
	"errors"
	"fmt"

	futexreport "ustack/render/futex/report"
)

// check reports what a document cannot have.
func (d *document) check() error {
	switch {
	case d.Schema != futexreport.Schema:
		return fmt.Errorf("schema %.40q is not %q", d.Schema, futexreport.Schema)
	case d.TimeUnit != "ns" && d.TimeUnit != "ticks":
		return fmt.Errorf("unknown time_unit %.40q", d.TimeUnit)
	case d.Start < 0 || d.End < d.Start || d.End-d.Start > maxNumber:
		return errors.New("its start and end are no times")
	case d.SliceTime < 0 || d.SliceTime > 0 && (d.length()-1)/d.SliceTime >= maxSlices:
		return fmt.Errorf("the time has more than %d slices", maxSlices)
	case len(d.Locks)+len(d.Condvars) > maxRows || len(d.Blocked) > maxStacks:
		return errors.New("it has too many rows")
	}
	if err := numbers(d.LockCount, d.SignalCount, d.Loss.Gaps); err != nil {
		return err
	}
	for _, s := range []*sum{&d.Contended, &d.Signalled, &d.All} {
		if err := errors.Join(numbers(s.Waits, s.Total, s.Open), bounds(s.Low, s.High)); err != nil {
			return err
		}
	}
	var size sizes
	for i := range d.Blocked {
		if err := errors.Join(numbers(d.Blocked[i].Time), size.frames(d.Blocked[i].Stack)); err != nil {
			return err
		}
	}
	return d.eachRow(func(r *row, _ class) error { return r.check(&size) })
}

// length returns how long the trace is, at least 1.
func (d *document) length() int64 { return max(d.End-d.Start, 1) }

// eachRow passes all rows, those of locks that are summed up too.
func (d *document) eachRow(do func(*row, class) error) error {
	for c, part := range [...]struct {
		list   []row
		others *row
	}{{d.Locks, d.OtherLocks}, {d.Condvars, d.OtherSignals}} {
		for i := range part.list {
			if err := do(&part.list[i], class(c)); err != nil {
				return fmt.Errorf("row %d of %s: %w", i+1, class(c), err)
			}
		}
		if part.others != nil {
			if err := do(part.others, class(c)); err != nil {
				return fmt.Errorf("row of others of %s: %w", class(c), err)
			}
		}
	}
	return nil
}

// sizes counts what all rows have together.
type sizes struct{ stacks, inStacks int }

func (s *sizes) frames(list []frame) error {
	s.stacks++
	s.inStacks += len(list)
	for i := range list {
		s.inStacks += len(list[i].Inlined)
		if list[i].Line < 0 {
			return errors.New("a line is negative")
		}
	}
	if s.stacks > maxStacks || s.inStacks > maxFrames {
		return errors.New("there are too many stacks")
	}
	return nil
}

func (r *row) check(size *sizes) error {
	if r.Group == "kind" {
		return errors.New("it sums up all futexes of a kind: make the report without --by kind")
	}
	if err := errors.Join(numbers(r.Waits, r.OpenWaits, r.Futexes, r.Total, r.Open, r.P99), bounds(r.Bounds.Low, r.Bounds.High)); err != nil {
		return err
	}
	last := int64(-1)
	for _, b := range r.Histogram {
		if err := numbers(b.From, b.Count); err != nil || b.From <= last {
			return errors.New("its histogram is not in order")
		}
		last = b.From
	}
	last = -1
	for _, s := range r.Slices {
		if err := numbers(s.At, s.Waits, s.Time); err != nil || s.At <= last || s.At >= maxSlices {
			return errors.New("its slices are not in order")
		}
		last = s.At
	}
	for _, list := range [][]stack{r.WaitStacks, r.Wakers} {
		for i := range list {
			if err := errors.Join(numbers(list[i].Count, list[i].Time), size.frames(list[i].Frames)); err != nil {
				return err
			}
		}
	}
	for _, h := range r.Holders {
		if err := numbers(h.Time); err != nil {
			return err
		}
	}
	return nil
}

// numbers reports a time or count that is none.
func numbers(list ...int64) error {
	for _, n := range list {
		if n < 0 || n > maxNumber {
			return fmt.Errorf("%d is no time or count", n)
		}
	}
	return nil
}

func bounds(low, high *int64) error {
	if low == nil || high == nil {
		return nil
	}
	if *low > *high {
		return errors.New("a lower bound is above the upper one")
	}
	return numbers(*high)
}
