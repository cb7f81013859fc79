package binary

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"ustack/tracefs"
)

// Rings are the ring buffers of all CPUs while they are written.
type Rings interface {
	// CPUs are the numbers of the CPUs.
	CPUs() []int32
	// Hold lets Next and its pages be used until Release, false if the rings are
	// closed.
	Hold() bool
	Release()
	// Next takes the next sub-buffer of the CPU with this index, or part of one,
	// up to where it is written; nil if there is nothing now. If it is not fresh,
	// it is that which there was before, and may have grown.
	Next(index int) (page []byte, fresh bool, err error)
	// Overrun is how many records of a CPU have ever been written over before
	// they were read, as of the last Next, if that is known.
	Overrun(index int) (n uint64, ok bool)
	// Now is the time of the trace clock.
	Now() uint64
	// Ended reports that nothing more is written.
	Ended() bool
	// Wait waits until there is something, for long if d is negative.
	Wait(d time.Duration) (ready bool, err error)
	// Rest waits whatever comes, but for the end.
	Rest(d time.Duration) error
	io.Closer
}

// Moving are Rings that take sub-buffers out of the buffer before Next asks for them.
type Moving interface {
	Rings
	// Moved returns where the sub-buffer that the last Next of a CPU gave has been
	// copied to, nil if it has stayed where it was since the last call. It is to be
	// called after each Hold, before that sub-buffer is used.
	Moved(index int) []byte
}

// LiveOptions are how a Live reads.
type LiveOptions struct {
	Options
	// Pause is how long there may be nothing before a batch says so.
	Pause time.Duration
	// Pace is how long records are left to gather when all have been taken that
	// were there.
	Pace time.Duration
	// Patience is how long Next may wait for records until it returns an empty batch,
	// which says that there were none when it was called; 0 for no such batch. A nil
	// one always returns 0.
	Patience func() time.Duration
}

// Live reads the ring buffers of all CPUs while they are written, as one trace.
// It implements input.ReadCloser.
//
// Records go out in the order of time, as from a Source. A CPU that has nothing
// is known to have nothing up to a moment before it was asked: later records of
// other CPUs wait until it is asked again. (A record whose writer needs longer
// than that moment, because the hypervisor took the CPU from it, comes late, as
// it does in the kernel's own text.)
type Live struct {
	rings   Rings
	moving  Moving // rings that are, else nil
	cpus    []*cpu
	opt     LiveOptions
	printer *Printer
	ready   cpuHeap // CPUs with a record at hand
	dry     []*cpu  // CPUs without
	limit   uint64  // the lowest time up to which one of these is known to be empty
	asked   time.Time
	paused  bool // the pause has been reported
	place   place
	errs    errorList
	failed  error
	bytes   int64
}

// moment is how long a record may take from its time stamp until it can be read.
const moment = uint64(time.Millisecond)

// liveBatch is how much text a batch has, a record more or less: as much as a read
// of trace_pipe gives. There are several on their way.
const liveBatch = 64 << 10

// never is later than all records.
const never = math.MaxUint64

// NewLive reads the rings of a kernel, and closes them in the end.
func NewLive(k *Kernel, rings Rings, opt LiveOptions) *Live {
	l := &Live{rings: rings, opt: opt, printer: newPrinter(k)}
	l.printer.want(opt.Options)
	layout := k.Layout
	if k.Subbuf > 0 {
		layout.Size = k.Subbuf
	}
	l.moving, _ = rings.(Moving)
	for i, number := range rings.CPUs() {
		pages := &livePages{l: l, index: i}
		l.cpus = append(l.cpus, &cpu{id: number, pages: pages, layout: &layout, errs: &l.errs, lostOf: pages.lost})
	}
	l.dry = slices.Clone(l.cpus)
	return l
}

// livePages are the sub-buffers of one CPU. It implements Pages.
type livePages struct {
	l     *Live
	index int
	empty uint64 // the time up to which there is nothing more
	lostN uint64 // records that are reported as lost
}

// lost returns how many records are missing before a sub-buffer that says how
// many, or 0 if it had no room for that: the kernel makes the number of the same
// counter (rb_get_reader_page in kernel/trace/ring_buffer.c). Had the counter gone
// on when it was used here, that is taken back the next time.
func (p *livePages) lost(reported uint64) uint64 {
	all, ok := p.l.rings.Overrun(p.index)
	if ok && (reported == 0 || p.lostN+reported > all) {
		reported = all - min(all, p.lostN)
	}
	p.lostN += reported
	return reported
}

// Page implements Pages. A failure is the end for all CPUs.
func (p *livePages) Page() ([]byte, error) {
	rings := p.l.rings
	ended, now := rings.Ended(), rings.Now() // before it is found empty
	page, fresh, err := rings.Next(p.index)
	if fresh && err == nil {
		return page, nil
	}
	if p.l.failed == nil {
		p.l.failed = err
	}
	p.empty = now - min(now, moment)
	if ended {
		p.empty = never
	}
	if len(page) > 0 && err == nil {
		return page, errSame
	}
	return nil, errEmpty
}

// Next implements input.Reader. Errors of single sub-buffers come with the last
// batch.
func (l *Live) Next(b *tracefs.Batch) error {
	b.Reset()
	l.place.begin(b, l.printer)
	end, err := l.fill(b)
	l.place.end(b)
	if err != nil || !end {
		return err
	}
	if err := l.errs.err(); err != nil {
		return err
	}
	return io.EOF
}

// fill takes what there is into the batch. If that is nothing, it waits. end is
// the end of the trace.
func (l *Live) fill(b *tracefs.Batch) (end bool, err error) {
	for {
		reported := false
		switch l.round(b) {
		case goOut:
			return false, l.failed
		case atEnd:
			return true, nil
		case rest:
			err = l.gather()
		case wait:
			reported, err = l.wait(b)
		}
		if reported || err != nil {
			return false, err
		}
	}
}

// todo is what is to be done after a round.
type todo uint8

const (
	goOut todo = iota // the batch has something
	rest              // nothing may go out for a moment
	wait              // there is nothing
	atEnd
)

// round takes what may go out now.
func (l *Live) round(b *tracefs.Batch) todo {
	if !l.rings.Hold() {
		l.failed = fmt.Errorf("reading the ring buffer: %w", os.ErrClosed)
		return goOut
	}
	defer l.rings.Release()
	l.move()
	for {
		l.take(b)
		if full(b, liveBatch) {
			break
		}
		ended := l.rings.Ended()
		if !ended && time.Since(l.asked) < l.opt.Pace {
			if b.Empty() {
				return rest
			}
			break
		}
		l.ask(b)
		switch {
		case l.failed != nil:
			return goOut
		case l.may():
			continue
		case !b.Empty():
		case len(l.ready) > 0: // too young
			return rest
		case ended:
			return atEnd
		default:
			return wait
		}
		break
	}
	l.paused = false
	return goOut
}

// move goes on in the copies of sub-buffers that have been taken out of the buffer.
func (l *Live) move() {
	if l.moving == nil {
		return
	}
	for i, c := range l.cpus {
		if copied := l.moving.Moved(i); copied != nil {
			c.page.Move(copied)
		}
	}
}

// may reports whether the earliest record may go out.
func (l *Live) may() bool { return len(l.ready) > 0 && l.ready[0].page.Time <= l.limit }

// take prints the records that may go out, up to a batch full.
func (l *Live) take(b *tracefs.Batch) {
	for l.may() && !full(b, liveBatch) {
		c := l.ready[0]
		if c.lost {
			l.printer.Lost(b, c.id, c.count)
			c.lost, c.count = false, 0
		}
		l.printer.Print(b, c.id, c.page.Time, c.page.Record)
		l.bytes += recordHead + int64(len(c.page.Record))
		if c.next() {
			l.ready.down(0)
			continue
		}
		l.ready.pop()
		l.dry = append(l.dry, c)
		l.limit = min(l.limit, c.pages.(*livePages).empty)
	}
}

// recordHead is what a record has in the ring buffer besides its data (struct
// ring_buffer_event).
const recordHead = 4

// Bytes returns how much of the ring buffer has been read, time extends left
// aside.
func (l *Live) Bytes() int64 { return l.bytes }

// ask looks whether the CPUs that were dry have something.
func (l *Live) ask(b *tracefs.Batch) {
	l.asked = time.Now()
	l.limit = never
	still := l.dry[:0]
	for _, c := range l.dry {
		if c.next() {
			l.ready.push(c)
			continue
		}
		if c.lost && l.rings.Ended() { // in what could not be read at its end
			l.printer.Lost(b, c.id, c.count)
			c.lost, c.count = false, 0
		}
		still = append(still, c)
		l.limit = min(l.limit, c.pages.(*livePages).empty)
	}
	l.dry = still
}

// gather leaves records time to gather since CPUs were asked last.
func (l *Live) gather() error {
	if d := l.opt.Pace - time.Since(l.asked); d > 0 {
		return l.rings.Rest(d)
	}
	return nil
}

// wait waits for a record. reported means that b says that there is none.
func (l *Live) wait(b *tracefs.Batch) (reported bool, err error) {
	d := l.opt.Pause
	if l.paused || d == 0 {
		d = -1
	}
	patience := time.Duration(0)
	if l.opt.Patience != nil {
		patience = l.opt.Patience()
	}
	if patience > 0 && (d < 0 || patience < d) {
		ready, err := l.rings.Wait(patience)
		return !ready && err == nil, err
	}
	ready, err := l.rings.Wait(d)
	if ready || err != nil || d < 0 {
		return false, err
	}
	l.paused, b.Paused = true, true
	return true, nil
}

// Losing reports whether records are missing before some that have not been delivered:
// these are of another CPU than what was delivered, and may be older.
func (l *Live) Losing() bool {
	return slices.ContainsFunc(l.ready, func(c *cpu) bool { return c.lost })
}

// Close implements input.ReadCloser.
func (l *Live) Close() error { return l.rings.Close() }

// Notes are remarks about how records were printed, each once.
func (l *Live) Notes() []string { return l.printer.notes.list }
