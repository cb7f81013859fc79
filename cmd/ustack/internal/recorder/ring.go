package recorder

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/cause"
	"ustack/render/record"
	"ustack/tracefs"
)

// Ring is a sink that keeps the last events in memory, until something happens.
type Ring struct {
	flight
	wake func(text string) error
	// detector looks for triggers, nil if none is in the trace.
	detector  *record.Detector
	deadlocks *deadlocks // nil if they are no trigger
	signals   chan os.Signal
	asked     chan os.Signal
	quit      chan struct{}
}

// NewRing returns a sink. From then on SIGUSR1 asks for a report: one that comes before tracing
// begins must not end the process.
func NewRing(opt Options, ropt RingOptions) *Ring {
	o := &Ring{flight: flight{opt: opt, ropt: ropt, now: time.Now}, signals: make(chan os.Signal, 1), asked: make(chan os.Signal, 1), quit: make(chan struct{})}
	signal.Notify(o.signals, syscall.SIGUSR1)
	if slices.ContainsFunc(ropt.Triggers, func(t record.Trigger) bool { return t.Watches() }) {
		o.detector = record.NewDetector(ropt.Triggers)
		if opt.Budget != nil && opt.Budget.duplicates != nil {
			o.detector.KeepCauses()
		}
	}
	return o
}

// Open implements live.Sink.
func (o *Ring) Open(start *live.Start) (needs live.Needs, err error) {
	o.wake = start.Wake
	if err := o.open(); err != nil {
		return needs, err
	}
	o.head = o.opt.fields(start)
	go o.listen()
	if o.ropt.deadlock() {
		o.deadlocks = newDeadlocks(start)
		needs.Processes, needs.Tick = true, lookEvery // a deadlock is silent
	}
	needs.Code = true
	if places := newPlaces(&o.opt, start); places != nil {
		o.keep(places)
		needs.Processes = true
	}
	return needs, nil
}

// keep has the text say where futexes are.
func (o *Ring) keep(s *places) {
	s.chunk, o.ring.Before, o.text.Before = o.ring.Chunk, s.earlier, s.before
}

// asking is written into the trace when a user asks for a report, writing when one
// is due: it wakes us, and marks the place.
const asking, writing = "ustack: a report was asked for", "ustack: a report is due"

// listen waits for the signal.
func (o *Ring) listen() {
	defer signal.Stop(o.signals)
	for {
		select {
		case sig := <-o.signals:
			select {
			case o.asked <- sig:
			default: // asked already
			}
			_ = o.wake(asking) // if it fails the next event wakes us
		case <-o.quit:
			return
		}
	}
}

// Renderer implements live.Sink.
func (o *Ring) Renderer(*resolve.Resolver) render.Renderer { return o }

// Batch implements render.Renderer.
func (o *Ring) Batch(h *resolve.Pending) error {
	if o.detector != nil {
		o.detector.Batch(h, o.trigger)
	}
	if o.deadlocks != nil {
		if err := o.deadlocks.batch(h); err != nil {
			return err
		}
	}
	if at := firstTime(h); at != 0 {
		o.ring.At(at)
	}
	return o.text.Batch(h)
}

// firstTime returns the time of the first record of a batch that has one, 0 if none has.
func firstTime(h *resolve.Pending) tracefs.Time {
	for i := range h.Batch.Records {
		if r := &h.Batch.Records[i]; h.Batch.Timed(r) {
			return h.Batch.Time(r)
		}
	}
	return 0
}

// Flush implements render.Renderer.
func (o *Ring) Flush() error { return o.text.Flush() }

// Close implements render.Renderer. The events that are kept at the end are a
// report, too.
func (o *Ring) Close(t *resolve.Totals) error {
	if !o.atEnd() {
		return nil
	}
	return o.write(t)
}

// trigger has a report written after a while, unless there was one just now.
func (o *Ring) trigger(why string, c *cause.Cause) {
	if o.flight.trigger(why, c) {
		time.AfterFunc(o.ropt.After, func() { _ = o.wake(writing) })
	}
}

// Step implements live.Sink. It is done after the last report.
func (o *Ring) Step(t *resolve.Totals) (done bool, err error) {
	select {
	case <-o.asked:
		o.trigger(askedFor, nil)
	default:
	}
	if o.deadlocks != nil && o.ready() { // else it is found when a report of it can be had
		if why := o.deadlocks.found(o.now()); why != "" {
			o.trigger(why, nil)
		}
	}
	if !o.isDue() {
		return false, nil
	}
	if err := o.write(t); err != nil {
		return false, err
	}
	return o.last(), nil
}

// End implements live.Sink.
func (o *Ring) End() error {
	close(o.quit)
	return nil
}
