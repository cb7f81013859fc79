package input

import (
	"sync"
	"time"

	"ustack/tracefs"
)

// Pipe reads ahead in a separate goroutine, so that finding records and
// resolving them share the work of two cores.
type Pipe struct {
	pool
	out   chan step
	quit  chan struct{}
	ticks <-chan time.Time
}

type step struct {
	batch *tracefs.Batch
	err   error
}

// readAhead is how many batches are filled ahead of the consumer.
const readAhead = 3

// NewPipe starts reading from r, which it closes when it is done. Close must be
// called.
func NewPipe(r ReadCloser) *Pipe {
	p := &Pipe{
		out:  make(chan step, readAhead),
		quit: make(chan struct{}),
	}
	go p.run(r)
	return p
}

// run closes the reader itself: it may still be reading when Close is called,
// and there is no waiting for a pipe that gives nothing.
func (p *Pipe) run(r ReadCloser) {
	defer close(p.out)
	defer r.Close()
	for {
		b := p.empty()
		err := r.Next(b)
		select {
		case p.out <- step{b, err}:
		case <-p.quit:
			return
		}
		if err != nil {
			return
		}
	}
}

// Tick has Next return nothing now and then, while nothing comes. It is to be
// called before Next.
func (p *Pipe) Tick(ticks <-chan time.Time) { p.ticks = ticks }

// Next returns the next batch, with an error (io.EOF at the end) if it is the
// last one. Without both, it is time for a Tick.
func (p *Pipe) Next() (*tracefs.Batch, error) {
	select {
	case s := <-p.out:
		return s.batch, s.err
	case <-p.ticks:
		return nil, nil
	}
}

// Close stops the reading after the batch at work.
func (p *Pipe) Close() { close(p.quit) }

// pool keeps batches that have been given back.
type pool struct {
	mu   sync.Mutex
	free []*tracefs.Batch // the one used last is last
}

// empty returns a batch that has been given back, or a new one.
func (p *pool) empty() *tracefs.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free) - 1; n >= 0 {
		b := p.free[n]
		p.free = p.free[:n]
		return b
	}
	return new(tracefs.Batch)
}

// Free gives a batch back.
func (p *pool) Free(b *tracefs.Batch) {
	p.mu.Lock()
	p.free = append(p.free, b)
	p.mu.Unlock()
}
