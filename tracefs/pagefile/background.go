package pagefile

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// background compresses and writes chunks while pages are read: a disk that is slow for a
// moment holds nothing up as long as there are buffers.
type background struct {
	*writer
	out     Out
	jobs    chan job
	free    chan []byte
	done    chan struct{}
	stopped bool
	full    atomic.Bool

	// These are run's until done.
	synced time.Time
	left   Counts
	err    error

	mu   sync.Mutex
	fail error // err, for others
}

// job is a chunk to be written.
type job struct {
	kind   kind
	cpu    int32
	data   []byte
	counts Counts
}

const (
	// waiting is how many chunks may wait.
	waiting = 16
	// tail is kept free for the last line.
	tail = 1 << 10
)

func newBackground(out Out, most int64) (*background, error) {
	w, err := newWriter(out, most)
	if err != nil {
		return nil, err
	}
	return &background{writer: w, out: out, jobs: make(chan job, waiting), free: make(chan []byte, waiting), done: make(chan struct{}), synced: time.Now()}, nil
}

// buffer returns an empty buffer.
func (b *background) buffer() []byte {
	select {
	case buf := <-b.free:
		return buf[:0]
	default:
		return nil
	}
}

// put has a chunk written. The data is the background's from then on.
func (b *background) put(j job) { b.jobs <- j }

// run writes chunks until stop.
func (b *background) run() {
	defer close(b.done)
	for j := range b.jobs {
		b.write(&j)
		select {
		case b.free <- j.data:
		default:
		}
	}
}

// write writes a chunk. After an error, or when the file is full, nothing is written any
// more: what came later would have a gap before it that the file does not show.
func (b *background) write(j *job) {
	if b.err == nil && !b.full.Load() {
		b.setError(b.chunk(j.kind, j.cpu, j.data, tail))
	}
	if b.err != nil || b.full.Load() {
		b.left.add(j.counts)
		return
	}
	if now := time.Now(); now.Sub(b.synced) >= flushEvery {
		b.synced = now
		b.setError(b.out.Sync())
	}
}

func (b *background) setError(err error) {
	if errors.Is(err, errFull) {
		b.full.Store(true)
		return
	}
	b.err = err
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// failed returns the error of what was written so far.
func (b *background) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fail
}

// stop waits until all is written.
func (b *background) stop() {
	if b.stopped {
		return
	}
	b.stopped = true
	close(b.jobs)
	<-b.done
}
