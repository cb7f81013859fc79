package live

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// progress is how far the trace has been read and attributed.
type progress struct {
	batches, attributed atomic.Int64
	taken               int64       // batches, by the goroutine that attributes them
	paused              atomic.Bool // the last batch that was read
}

// counted are batches that are counted.
type counted struct {
	*input.Pipe
	s *session
}

// Next implements input.Batches.
func (c *counted) Next() (*tracefs.Batch, error) {
	b, err := c.Pipe.Next()
	if b != nil {
		c.s.progress.taken++
	}
	return b, err
}

// hasRead notes that a batch has been read.
func (p *progress) hasRead(paused bool) {
	p.paused.Store(paused)
	p.batches.Add(1)
}

// idle reports whether all records until a moment ago have been attributed.
func (p *progress) idle() bool {
	return p.attributed.Load() == p.batches.Load() && p.paused.Load()
}

// pump passes the trace to the sink as it comes.
func (s *session) pump(trace source.Source) (*resolve.Totals, error) {
	hold := pump.Hold()
	if s.opt.Stitch {
		hold = pump.StitchedHold()
	}
	opt := resolve.Options{Hold: hold, Stitch: s.opt.Stitch, Strict: s.opt.Strict, Sources: 1, Waits: s.wantEvents()}
	switch {
	case s.follow.attributor == nil:
	case s.needs.Symbols != nil:
		var err error
		if opt.Attributor, err = s.follow.named(s.opt.Proc, s.needs.Symbols); err != nil {
			return nil, err
		}
	default:
		opt.Attributor = s.follow.attributor
	}
	res := resolve.New(opt)
	r := s.opt.Reporter
	counter := render.NewCounter(r.Out, r.Quiet || s.needs.OwnProgress || !render.IsTerminalWriter(r.Out))
	defer counter.Done()
	var failed error
	pipe := input.NewPipe(&followed{Source: trace, s: s})
	if s.needs.Tick > 0 {
		ticker := time.NewTicker(s.needs.Tick)
		defer ticker.Stop()
		pipe.Tick(ticker.C)
	}
	totals, err := pump.Run(&counted{pipe, s}, res, s.sink.Renderer(res), func() {
		counter.Step(res.Totals())
		s.renew(res.Totals())
		s.weigh(res.Totals())
		s.progress.attributed.Store(s.progress.taken)
		// In the kernel's text, a name can hold a head of any time.
		s.follow.reached(min(res.Attributed(), space.Monotonic()))
		if failed == nil {
			var done bool
			if done, failed = s.sink.Step(res.Totals()); done || failed != nil {
				s.stop.finish()
			}
		}
	})
	return totals, errors.Join(err, failed)
}

// followed is the trace with up-to-date address spaces: all changes before a
// record are known when the record is read.
type followed struct {
	source.Source
	s      *session
	place  position
	before int64 // bytes that earlier sources have read
}

// Next implements input.Reader.
func (r *followed) Next(b *tracefs.Batch) error {
	whole := false
	defer r.s.stop.unless(&whole)
	err := r.Source.Next(b)
	if r.s.settings.look() {
		r.place.restart()
		r.s.unwind.restarted()
		err = r.s.settings.again(r, b)
	}
	r.place.move(b)
	r.s.progress.hasRead(b.Paused)
	r.s.read.Store(r.before + r.Source.Size())
	if err == nil || err == io.EOF {
		until := r.s.unwind.read()
		serr := errors.Join(r.s.beside.drain(b, err == io.EOF, r.s.follow), r.settle(b, err == io.EOF))
		r.place.grow(r.s.unwind.batch(b, until))
		if serr = errors.Join(serr, r.s.saved.text(b.Text)); serr != nil {
			err = serr
		}
		r.s.follow.early.visit(b)
	}
	whole = true
	return err
}

// settle brings the address spaces up to date. When records come fast, an earlier one
// has already brought them up to the time of most batches. A batch of the kernel's
// text has no sure time: a name in it can contain a head of any time.
func (r *followed) settle(b *tracefs.Batch, end bool) error {
	t := tracefs.Time(0)
	if r.Source.Exact() && !b.Paused && !end {
		t = batchTime(b)
	}
	if t == 0 {
		return r.s.follow.settle()
	}
	return r.s.follow.upTo(t + stampSlack)
}

// Close implements input.ReadCloser.
func (r *followed) Close() error {
	return errors.Join(r.s.unwind.source.Close(), r.Source.Close())
}
