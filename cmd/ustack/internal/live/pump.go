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
	"ustack/filemap/whole"
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
	keeper := s.saved.keeper()
	switch {
	case s.follow.attributor == nil:
	case s.namesCode():
		var err error
		if opt.Attributor, err = s.follow.named(s.opt.Proc, s.needs.Symbols, keeper); err != nil {
			return nil, err
		}
	default:
		opt.Attributor = s.follow.attributor
	}
	res := resolve.New(opt)
	r := s.opt.Reporter
	counter := render.NewCounter(r.Out, r.Quiet || s.needs.OwnProgress || s.needs.Lines)
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
		s.nothing.step(res.Totals())
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
	if n := keeper.Left(); n > 0 {
		s.say("%d frames have names that were not saved: too many different ones, or stacks", n)
	}
	return totals, errors.Join(err, failed, keeper.Close())
}

// namesCode reports whether code in no file is named: nothing can do that later.
func (s *session) namesCode() bool {
	return s.needs.Symbols != nil || s.needs.Code || s.saved != nil
}

// followed is the trace with up-to-date address spaces: all changes before a
// record are known when the record is read.
type followed struct {
	source.Source
	s      *session
	place  position
	before int64 // bytes that earlier sources have read
	err    error // of a trace of which batches are still held back
}

// Next implements input.Reader.
func (r *followed) Next(b *tracefs.Batch) error {
	done := false
	defer r.s.stop.unless(&done)
	var err error
	if r.s.unwind.lookout != nil {
		err = r.held(b)
	} else {
		var was whole.Arrival
		was, err = r.read(b)
		err = r.deliver(b, &was, err)
	}
	done = true
	return err
}

// read reads a batch, and gives it the stacks that samples prove.
func (r *followed) read(b *tracefs.Batch) (was whole.Arrival, err error) {
	err = r.Source.Next(b)
	if r.s.settings.look() {
		was.Restart = true
		r.s.unwind.restarted()
		err = r.s.settings.again(r, b)
	}
	was.Size, was.Lines = int64(len(b.Text)), b.Lines
	if r.s.unwind.lookout != nil && err == nil && b.Empty() && !b.Paused {
		return was, nil // only time has passed
	}
	r.s.progress.hasRead(b.Paused)
	r.s.read.Store(r.before + r.Source.Size())
	if err == nil || err == io.EOF {
		until := r.s.unwind.read()
		serr := errors.Join(r.s.beside.drain(b, err == io.EOF, r.s.follow), r.settle(b, err == io.EOF), r.s.rights.goOn(r.s))
		r.s.unwind.batch(b, until)
		if serr != nil {
			err = serr
		}
		r.s.follow.early.visit(b)
	}
	return was, err
}

// deliver puts a batch in its place, and saves it.
func (r *followed) deliver(b *tracefs.Batch, was *whole.Arrival, err error) error {
	if was.Restart {
		r.place.restart()
	}
	r.place.put(b, was)
	if err == nil || err == io.EOF {
		if serr := r.s.saved.text(b.Text); serr != nil {
			err = serr
		}
	}
	return err
}

// held returns the next batch of those that are held back until the threads that wait have
// been looked at.
func (r *followed) held(b *tracefs.Batch) error {
	l := r.s.unwind.lookout
	// While many go out, more have to come in: the buffer has room for a moment only.
	for many := l.Holds(); ; many = false {
		if many && r.err == nil {
			r.take(l, b)
		}
		if h := l.Next(); h != nil {
			*b, h.Batch = h.Batch, *b
			was := h.Arrival
			l.Free(h)
			err := r.err
			if l.Holds() {
				err = nil
			}
			return r.deliver(b, &was, err)
		}
		r.take(l, b)
	}
}

// take reads a batch, by way of b, and has it held back.
func (r *followed) take(l *whole.Lookout, b *tracefs.Batch) {
	began := space.Monotonic()
	was, err := r.read(b)
	if r.err = err; err == nil && b.Empty() && !b.Paused {
		l.Known(began)
		return
	}
	nothing := b.Paused
	was.Losing = r.Source.Losing()
	l.Put(b, was)
	switch {
	case err != nil:
		l.End(tracefs.Time(r.s.until.Load()))
	case nothing:
		l.Known(began)
	}
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
