package pagefile

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	tracebinary "ustack/tracefs/binary"
)

// Out is the file that a Capture goes into.
type Out interface {
	io.Writer
	// Sync writes all that was written onto the disk.
	Sync() error
}

// Capture makes a report of pages while they are read. Begin, Add, Confirm and
// Flush are for the goroutine that reads them; the log may be written by any; Start comes
// after Begin, and Finish or Abandon when nothing is read any more.
//
// Invariant: no page is written before it is confirmed. Pages that were read while another
// user changed the clock have times that mean something else.
type Capture struct {
	id string
	w  *background // nil before Start

	meta  []tracebinary.MetaFile
	scan  *scanner // nil before Begin
	byCPU map[int32]*pending
	cpus  []*pending
	due   bool // a chunk is full
	begun time.Time
	// Any goroutine may read these.
	events, stacks atomic.Int64
	bytes          int64

	mu    sync.Mutex
	log   []byte // written, not in a chunk yet
	notes []string
	end   bool // no more is taken
}

// pending are the pages of a CPU that are not in a chunk yet.
type pending struct {
	cpu    int32
	data   []byte
	counts Counts
	// Of these, what is confirmed.
	sure       int
	sureCounts Counts
}

// flushEvery is how long pages wait until they are written, and how often what was written
// is brought onto the disk: a crash loses no more than the last second.
const flushEvery = 500 * time.Millisecond

// NewCapture returns a Capture.
func NewCapture() *Capture {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it does not fail
	return &Capture{id: hex.EncodeToString(random[:]), byCPU: make(map[int32]*pending)}
}

// ID is the identifier of the trace, which is in its log, too.
func (c *Capture) ID() string { return c.id }

// Log returns where the log of address spaces is written to.
func (c *Capture) Log() io.Writer { return (*captureLog)(c) }

// Note has a remark for readers written. It may be called by any goroutine.
func (c *Capture) Note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.notes) < maxNotes {
		c.notes = append(c.notes, text)
	}
}

// maxNotes bounds the notes that wait to be written.
const maxNotes = 100

// captureLog is the log of a Capture.
type captureLog Capture

// Write implements io.Writer.
func (l *captureLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.end { // what comes to light after the end is of no use
		l.log = append(l.log, p...)
	}
	return len(p), nil
}

// Begin is called when the pages are opened: files describe their kernel, names has the
// names of threads. Called again, after the pages were closed, it takes back what is not confirmed,
// and notes that records of all CPUs are missing in between.
func (c *Capture) Begin(files []tracebinary.MetaFile, names tracebinary.Names, cpus []int32) error {
	k, err := tracebinary.ParseMeta(files)
	if err != nil {
		return err
	}
	if c.scan == nil {
		c.meta = files
		c.scan = newScanner(k, newNamer(names))
		return nil
	}
	c.drop()
	c.scan.namer.forget()
	for _, cpu := range cpus {
		c.add(c.pending(cpu), c.scan.layout.Gap())
	}
	return nil
}

// Confirm confirms all pages that were added.
func (c *Capture) Confirm() {
	for _, p := range c.cpus {
		p.sure, p.sureCounts = len(p.data), p.counts
	}
	c.scan.namer.sure = len(c.scan.namer.buf)
}

// drop takes back what is not confirmed.
func (c *Capture) drop() {
	for _, p := range c.cpus {
		c.events.Add(p.sureCounts.Events - p.counts.Events)
		c.stacks.Add(p.sureCounts.Stacks - p.counts.Stacks)
		p.data, p.counts = p.data[:p.sure], p.sureCounts
	}
	if c.scan != nil {
		c.scan.namer.buf = c.scan.namer.buf[:c.scan.namer.sure]
	}
}

// Loss are records of a CPU that are missing.
type Loss struct {
	CPU   int32
	Count uint64 // 0 if unknown
}

// Room reports whether another page of a CPU may be added before the next Flush.
func (c *Capture) Room(cpu int32) bool {
	return len(c.pending(cpu).data)+c.scan.layout.Size <= chunkSize
}

// Add adds a page, which is not used after it returns. lost is what is missing before it,
// nil for nothing.
func (c *Capture) Add(cpu int32, page []byte) (lost *Loss) {
	p := c.pending(cpu)
	page = page[:c.scan.layout.Used(page)]
	counts, missed, n := c.scan.scan(page)
	p.counts.add(counts)
	c.events.Add(counts.Events)
	c.stacks.Add(counts.Stacks)
	c.bytes += int64(len(page))
	c.add(p, page)
	if missed {
		return &Loss{cpu, n}
	}
	return nil
}

func (c *Capture) add(p *pending, page []byte) {
	if c.begun.IsZero() {
		c.begun = time.Now()
	}
	p.data = binary.LittleEndian.AppendUint32(p.data, uint32(len(page)))
	p.data = append(p.data, page...)
	c.due = c.due || len(p.data)+c.scan.layout.Size > chunkSize
}

func (c *Capture) pending(cpu int32) *pending {
	p := c.byCPU[cpu]
	if p == nil {
		p = &pending{cpu: cpu}
		c.byCPU[cpu] = p
		c.cpus = append(c.cpus, p)
	}
	return p
}

// Counts returns how many records were added. It may be called by any goroutine.
func (c *Capture) Counts() Counts { return Counts{c.events.Load(), c.stacks.Load()} }

// Bytes returns how many bytes the records that were added have.
func (c *Capture) Bytes() int64 { return c.bytes }

// Due reports whether it is time for Flush.
func (c *Capture) Due() bool {
	return c.w != nil && (c.due || !c.begun.IsZero() && time.Since(c.begun) >= flushEvery)
}

// errNotStarted: there is no file yet.
var errNotStarted = errors.New("writing pages before there is a file")

// Flush has all that was added, and confirmed since, written in the background. The log must
// have all that happened until the pages were read.
func (c *Capture) Flush() error {
	if c.w == nil {
		return errNotStarted
	}
	c.flushLog()
	if b := c.scan.namer.buf; len(b) > 0 {
		c.w.put(job{kind: kindComms, data: b})
		c.scan.namer.buf, c.scan.namer.sure = c.w.buffer(), 0
	}
	for _, p := range c.cpus {
		if len(p.data) > 0 {
			c.w.put(job{kind: kindPages, cpu: p.cpu, data: p.data, counts: p.counts})
			*p = pending{cpu: p.cpu, data: c.w.buffer()}
		}
	}
	c.due, c.begun = false, time.Time{}
	return c.w.failed()
}

// flushLog has the log written, in as many chunks as it takes.
func (c *Capture) flushLog() {
	c.mu.Lock()
	log, notes := c.log, c.notes
	c.log, c.notes = nil, nil
	c.mu.Unlock()
	for _, n := range notes {
		c.w.put(job{kind: kindNote, data: []byte(n)})
	}
	for len(log) > 0 {
		n := min(len(log), chunkSize)
		c.w.put(job{kind: kindLog, data: append(c.w.buffer(), log[:n]...)})
		log = log[n:]
	}
}

// Start begins to write to a file of at most so many bytes, 0 for no bound. head are the
// lines that a report of text begins with.
func (c *Capture) Start(out Out, most int64, head []byte) error {
	if c.scan == nil {
		return errors.New("writing pages of an unknown kernel")
	}
	w, err := newBackground(out, most)
	if err != nil {
		return err
	}
	err = metaChunks(c.meta, func(b []byte) error { return w.chunk(kindMeta, 0, b, 0) })
	if err == nil {
		err = w.chunk(kindHead, 0, head, 0)
	}
	if err != nil {
		return err
	}
	c.meta = nil
	c.w = w
	go w.run()
	c.flushLog()
	return w.failed()
}

// Full reports whether no more pages are written: the file has its largest size.
func (c *Capture) Full() bool { return c.w != nil && c.w.full.Load() }

// Left is what was left out, because the file has its largest size. It is for after
// Finish.
func (c *Capture) Left() Counts {
	if c.w == nil {
		return Counts{}
	}
	return c.w.left
}

// Finish writes what is left, and the last line, which end makes of what was left out.
func (c *Capture) Finish(end func(left Counts) []byte) error {
	c.drop()
	err := c.Flush()
	if c.w == nil {
		return err
	}
	c.stop()
	if err != nil {
		return err
	}
	if err := c.w.err; err != nil {
		return err
	}
	return c.w.chunk(kindEnd, 0, end(c.w.left), 0)
}

// Abandon ends the writing without an end. It may be called again, and after Finish.
func (c *Capture) Abandon() error {
	if c.w == nil || c.w.stopped {
		return nil
	}
	c.drop()
	err := c.Flush()
	c.stop()
	return errors.Join(err, c.w.err)
}

func (c *Capture) stop() {
	c.mu.Lock()
	c.end = true
	c.mu.Unlock()
	c.w.stop()
}
