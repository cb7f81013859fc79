//go:build !device && (amd64 || arm64)

package sums

import (
	"errors"
	"fmt"
	"io"

	"ustack/cmd/ustack/internal/display"
	"ustack/cmd/ustack/internal/output"
	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// reporting makes a report at the end, and of what has been so far.
type reporting struct {
	s       *session
	out     io.WriteCloser // of the report
	sum     *futex.Summed
	interim *display.Interim
	others  futex.CallSum // of futexes that are no longer counted by themselves
}

func newReporting(s *session) (*reporting, error) {
	if s.opt.Out.Profile.Timed || s.opt.Out.Profile.Page {
		return nil, fmt.Errorf("--source=%s does not have each wait at its time: --format=text, json, or a profile of stacks", Name)
	}
	out, err := s.opt.To.Open(s.opt.Stdout, s.opt.Text)
	if err != nil {
		return nil, err
	}
	if err := output.CheckProfile(out, s.opt.Out.Profile); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	soFar := s.opt.Stdout
	if s.opt.To.ToFile() {
		soFar = out
	}
	return &reporting{s: s, out: out, interim: display.New(soFar, s.opt.Interval)}, nil
}

func (o *reporting) begin(at tracefs.Time) error {
	o.sum = futex.NewSummed(at, tracefs.Time(o.s.opt.MinWait))
	return nil
}

func (o *reporting) id(f *bpffutex.Futex) futex.FutexID { return futexID(f) }

func (o *reporting) wait(w *futex.LongWait) error {
	o.sum.Add(w)
	return nil
}

func (o *reporting) gone(id futex.FutexID, c *futex.CallSum) {
	o.others.Add(c)
	o.sum.Forget(id)
}

// step shows the report so far if it is time to.
func (o *reporting) step() (done bool, err error) {
	t := resolve.Totals{Events: o.sum.Seen()}
	return false, o.interim.Step(&t, func(w io.Writer) error {
		r, err := o.make()
		if err != nil {
			return err
		}
		return o.s.opt.Out.Write(w, r)
	})
}

// make makes the report until now.
func (o *reporting) make() (*futex.Report, error) {
	st, err := o.s.now(nil)
	if err != nil {
		return nil, err
	}
	st.Others.Add(&o.others)
	if o.s.names != nil {
		o.sum.Name(o.s.names)
	}
	return o.sum.Report(st, o.s.opt.Out.View), nil
}

// end writes the report.
func (o *reporting) end() error {
	if err := o.interim.Clear(); err != nil {
		return err
	}
	r, err := o.make()
	if err != nil {
		return err
	}
	return o.s.opt.Out.Summed(o.out, o.s.opt.Messages, r)
}

func (o *reporting) close() error {
	if err := o.out.Close(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
