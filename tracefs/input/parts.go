package input

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"ustack/tracefs"
	"ustack/tracefs/text"
)

// Batches gives the batches of a trace in order, to one goroutine. Others read
// ahead.
type Batches interface {
	// Next returns the next batch, with an error (io.EOF at the end) if it is
	// the last one. Nothing at all says that there is none yet.
	Next() (*tracefs.Batch, error)
	// Free gives a batch back.
	Free(*tracefs.Batch)
	// Close stops the reading and closes the trace.
	Close()
}

// Start begins to read a trace, a plain file in parts if there are processors
// for it.
func (t *Trace) Start() Batches {
	workers := min(runtime.GOMAXPROCS(0), maxWorkers)
	if s, ok := t.Reader.(*Source); ok && s.in.plain != nil && !s.in.expanded && workers > 1 {
		return newParts(t, s, workers, blockSize, seamSize)
	}
	return NewPipe(t)
}

func newParts(t *Trace, s *Source, workers int, size, seam int64) *Parts {
	return &Parts{trace: t, src: s, workers: workers, size: size, seam: seam, patience: 1, wait: 1}
}

// maxWorkers bounds how many scan at once. More would wait for what comes after
// them.
const maxWorkers = 4

// Parts reads a plain file in parts that are scanned at the same time. Where
// that does not work out, the file is read in order for a while.
type Parts struct {
	trace *Trace
	src   *Source // reads in order; the next batch begins at its pos and line
	pool
	workers int
	size    int64 // of a part
	// seam is how much text at the border of two parts is looked at for a
	// header.
	seam  int64
	forks []*text.Scanner // one a worker
	ahead *ahead          // nil while src reads
	// wait is how many batches src has to read yet, patience how many at the
	// next failure.
	wait, patience int
}

// ahead is what the workers share, from one place of the file on.
type ahead struct {
	p     *Parts
	pos   int64 // of part 0
	parts int64
	next  atomic.Int64 // part to be scanned
	taken int64        // parts that have been used
	room  chan struct{}
	quit  chan struct{}
	done  sync.WaitGroup
	slots []chan part // of part n: n modulo their number
}

// part is a batch, nil if the part cannot be used.
type part struct{ batch *tracefs.Batch }

// seamSize is the seam that is used: twice the kernel's longest record.
const seamSize = 16 << 10

// Next implements Batches.
func (p *Parts) Next() (*tracefs.Batch, error) {
	for {
		if p.ahead == nil && !p.begin() {
			b := p.empty()
			p.wait--
			return b, p.src.Next(b)
		}
		if b := p.ahead.take(); b != nil {
			b.Line = p.src.line
			p.src.pos += int64(len(b.Text))
			p.src.line += b.Lines
			p.src.in.counted.n.Store(p.src.pos)
			return b, nil
		}
		p.halt()
		if err := p.src.in.seek(p.src.pos); err != nil {
			b := p.empty()
			b.Reset()
			b.Pos, b.Line = p.src.pos, p.src.line
			return b, err
		}
	}
}

// begin lets the workers go on where src stands, if they can.
func (p *Parts) begin() bool {
	s := p.src
	parts := (s.in.Size - s.in.start - s.pos - p.seam) / p.size
	if p.wait > 0 || parts < int64(p.workers) || s.ended || s.skip || !s.scan.Whole() {
		return false
	}
	s.tail = s.tail[:0]
	a := &ahead{p: p, pos: s.pos, parts: parts, quit: make(chan struct{})}
	const slots = 2 // for each worker
	a.room = make(chan struct{}, slots*p.workers)
	for range slots * p.workers {
		a.slots = append(a.slots, make(chan part, 1))
		a.room <- struct{}{}
	}
	if p.forks == nil {
		p.forks = append(p.forks, s.scan) // it has nothing to do meanwhile
		for len(p.forks) < p.workers {
			p.forks = append(p.forks, s.scan.Fork())
		}
	}
	for _, scan := range p.forks[1:] {
		scan.Follow(s.scan)
	}
	for _, scan := range p.forks {
		a.done.Go(func() { a.work(scan) })
	}
	p.ahead = a
	return true
}

// halt sends the workers away. If the file did not end, src takes its turn.
func (p *Parts) halt() {
	a := p.ahead
	p.ahead = nil
	close(a.quit)
	a.done.Wait()
	if a.taken <= a.parts {
		p.wait, p.patience = p.patience, 2*p.patience
	}
}

// Close implements Batches.
func (p *Parts) Close() {
	if p.ahead != nil {
		p.halt()
	}
	_ = p.trace.Close()
}

// take returns the next part, nil if there is none.
func (a *ahead) take() *tracefs.Batch {
	if a.taken == a.parts {
		a.taken++
		return nil
	}
	b := (<-a.slots[a.taken%int64(len(a.slots))]).batch
	a.taken++
	a.room <- struct{}{}
	return b
}

// work scans parts until there are none left.
func (a *ahead) work(scan *text.Scanner) {
	edge := make([]byte, a.p.seam)
	for {
		select {
		case <-a.quit:
			return
		case <-a.room:
		}
		n := a.next.Add(1) - 1
		if n >= a.parts {
			return
		}
		b := a.p.empty()
		if !a.scan(scan, b, n, edge) {
			a.p.Free(b)
			b = nil
		}
		a.slots[n%int64(len(a.slots))] <- part{b}
	}
}

// scan reads a part and finds its records. It goes from the first header after its
// border to the first one after the next part's border.
func (a *ahead) scan(scan *text.Scanner, b *tracefs.Batch, n int64, edge []byte) bool {
	from, to := a.pos+n*a.p.size, a.pos+(n+1)*a.p.size
	near := min(a.p.seam, nearSeam)
	if n > 0 {
		first := a.header(scan, edge[:near], 0, from)
		if first < 0 {
			first = a.header(scan, edge, 0, from)
		}
		if from += int64(first); first < 0 || from > to {
			return false
		}
	}
	b.Reset()
	b.Pos = from
	border := int(to - from)
	if cap(b.Text) < border+len(edge) {
		b.Text = make([]byte, int(a.p.size)+len(edge))
	}
	b.Text = b.Text[:border+int(near)]
	last := a.header(scan, b.Text, border, from)
	if last < 0 {
		b.Text = b.Text[:border+len(edge)]
		last = a.header(scan, b.Text, border, from)
	}
	return last >= 0 && scan.ScanPart(b, border+last)
}

// nearSeam is how much of a seam is looked at first. The result does not depend
// on it.
const nearSeam = 2 << 10

// header fills text from a place of the file, and finds the first header after a
// border in it, -1 if there is none.
func (a *ahead) header(scan *text.Scanner, text []byte, border int, pos int64) int {
	if !a.read(text, pos) {
		return -1
	}
	return scan.FirstHeader(text[border:])
}

func (a *ahead) read(b []byte, pos int64) bool {
	n, err := a.p.src.in.plain.ReadAt(b, a.p.src.in.start+pos)
	return n == len(b) && (err == nil || err == io.EOF)
}
