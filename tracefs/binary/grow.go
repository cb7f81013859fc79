package binary

import (
	"slices"
	"sync"
	"time"

	"ustack/tracefs/ring"
)

// GrowOptions are how rings grow.
type GrowOptions struct {
	// Layout is that of their sub-buffers.
	Layout ring.Layout
	// Most is how many bytes of memory may be used.
	Most int64
	// Every is how often it is looked whether the reader is late: it should be a small
	// part of the time in which a buffer can fill up.
	Every time.Duration
	// Filling reports whether so much of a CPU's buffer is in use that it is worth
	// emptying.
	Filling func(cpu int32) bool
	// Grown is called when more memory is used than ever before, by a goroutine of the
	// rings; bytes is how much.
	Grown func(bytes int64)
}

// Grow returns rings that hold in memory what their reader has not come to. When the
// reader is late, and a buffer fills, a goroutine copies the records out of it. Closing
// them closes r.
//
// The kernel's buffer itself cannot grow without a loss: the kernel refuses to resize one
// that is mapped (ring_buffer_resize in kernel/trace/ring_buffer.c), and since Linux 6.7 it
// traces nothing while it resizes one (__tracing_resize_ring_buffer in kernel/trace/trace.c).
func Grow(r Rings, opt GrowOptions) Moving {
	g := newGrowing(r, opt)
	go g.run()
	return g
}

func newGrowing(r Rings, opt GrowOptions) *growing {
	return &growing{Rings: r, opt: opt, cpus: make([]growingCPU, len(r.CPUs())), room: room{most: opt.Most, grown: opt.Grown}, quit: make(chan struct{})}
}

// growing implements Moving.
//
// Invariants:
//   - What is held of a CPU is older than all that is in its buffer.
//   - Before a sub-buffer is taken out of the buffer, what the reader has of the last one
//     is in our memory, and Moved says so: the kernel may write to that one again.
type growing struct {
	Rings
	opt  GrowOptions
	quit chan struct{}
	once sync.Once

	mu   sync.Mutex // held between Hold and Release, while Wait waits, and while records are copied
	cpus []growingCPU
	room room
}

// growingCPU is what is held of one CPU.
type growingCPU struct {
	held []heldPage // the oldest is first
	// page is the sub-buffer of the last Next, in a chunk if that is not nil. moved is set
	// until Moved has returned it.
	page  []byte
	in    *chunk
	moved bool
	// written is how much has been copied of the last sub-buffer that came out of the
	// buffer.
	written int
	// overrun and known are what Overrun returns.
	overrun uint64
	known   bool
	// emptied counts how often the reader has found nothing; seen is its last value.
	emptied, seen uint64
}

// heldPage is a sub-buffer that the reader has not come to. If it is the same, it is more of
// the one before it.
type heldPage struct {
	data    []byte
	in      *chunk
	same    bool
	overrun uint64
	known   bool
}

// Hold implements Rings.
func (g *growing) Hold() bool {
	g.mu.Lock()
	if g.Rings.Hold() {
		return true
	}
	g.mu.Unlock()
	return false
}

// Release implements Rings.
func (g *growing) Release() {
	g.Rings.Release()
	g.mu.Unlock()
}

// Next implements Rings. The sub-buffer before it is not used any more.
func (g *growing) Next(index int) (page []byte, fresh bool, err error) {
	c := &g.cpus[index]
	if len(c.held) > 0 {
		h := c.held[0]
		c.held[0] = heldPage{}
		c.held = c.held[1:]
		g.use(c, h.data, h.in)
		c.overrun, c.known = h.overrun, h.known
		return h.data, !h.same, nil
	}
	page, fresh, err = g.Rings.Next(index)
	c.overrun, c.known = g.Rings.Overrun(index)
	if !fresh {
		c.emptied++
	}
	if len(page) > 0 && err == nil {
		g.use(c, page, nil)
	}
	return page, fresh, err
}

// use gives up the sub-buffer that the reader had for another one.
func (g *growing) use(c *growingCPU, page []byte, in *chunk) {
	g.room.release(c.in)
	c.page, c.in, c.moved = page, in, false
}

// Moved implements Moving.
func (g *growing) Moved(index int) []byte {
	c := &g.cpus[index]
	if !c.moved {
		return nil
	}
	c.moved = false
	return c.page
}

// Overrun implements Rings.
func (g *growing) Overrun(index int) (n uint64, known bool) {
	c := &g.cpus[index]
	return c.overrun, c.known
}

// Wait implements Rings.
func (g *growing) Wait(d time.Duration) (ready bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.cpus {
		if len(g.cpus[i].held) > 0 {
			return true, nil
		}
	}
	return g.Rings.Wait(d)
}

// Close implements Rings. It may be called again.
func (g *growing) Close() error {
	err := g.Rings.Close() // ends Wait
	g.once.Do(func() {
		close(g.quit)
		g.mu.Lock()
		defer g.mu.Unlock()
		for i := range g.cpus {
			c := &g.cpus[i]
			g.room.release(c.in)
			for _, h := range c.held {
				g.room.release(h.in)
			}
			*c = growingCPU{}
		}
		g.room.free()
	})
	return err
}

// run looks after the buffers until Close. Those that fill are emptied by turns: one into which
// records go as fast as they come out always has more.
func (g *growing) run() {
	preferred()
	ticker := time.NewTicker(g.opt.Every)
	defer ticker.Stop()
	at := make([]bool, len(g.cpus)) // that are being emptied
	ready := make(chan struct{})
	close(ready)
	var more chan struct{} // ready if any may have more
	for {
		select {
		case <-g.quit:
			return
		case <-ticker.C:
			g.look(at)
		case <-more:
		}
		if more = nil; g.empty(at) {
			more = ready
		}
	}
}

// look adds the CPUs whose buffers fill.
func (g *growing) look(at []bool) {
	for i, cpu := range g.CPUs() {
		if g.late(i) && g.opt.Filling(cpu) {
			at[i] = true
		}
	}
}

// late reports whether the reader has not come to the end of a CPU's records since the last
// call.
func (g *growing) late(index int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.cpus[index]
	late := c.emptied == c.seen
	c.seen = c.emptied
	return late
}

// empty copies a piece of what is in the buffer of each of these CPUs, while there is room, and
// reports whether any may have more. The reader can go on between the pieces.
func (g *growing) empty(at []bool) (more bool) {
	for i := range at {
		if at[i] = at[i] && g.Hold(); at[i] {
			at[i] = g.take(i)
			g.Release()
			more = more || at[i]
		}
	}
	return more
}

// piece is how many sub-buffers are copied at once.
const piece = 128

// take copies a piece of what is in a CPU's buffer, and reports whether there may be more.
func (g *growing) take(index int) (more bool) {
	c := &g.cpus[index]
	if c.page != nil && c.in == nil {
		data, in, ok := g.room.copy(&g.opt.Layout, c.page)
		if !ok {
			return false
		}
		c.page, c.in, c.moved = data, in, true
		c.written = g.opt.Layout.Written(data)
	}
	again := false
	for range piece {
		if !g.room.has(g.opt.Layout.Size) {
			return false
		}
		page, fresh, err := g.Rings.Next(index)
		if len(page) == 0 || err != nil {
			return false // an error comes again
		}
		h := heldPage{same: !fresh}
		h.overrun, h.known = g.Rings.Overrun(index)
		var ok bool
		if h.data, h.in, ok = g.room.copy(&g.opt.Layout, page); !ok {
			h.data = slices.Clone(page) // it has no head
			c.held = append(c.held, h)
			return false
		}
		written := g.opt.Layout.Written(h.data)
		if fresh || written != c.written {
			c.held = append(c.held, h)
			c.written, again = written, false
			continue
		}
		g.room.release(h.in)
		if again {
			return false
		}
		again = true // the page may be released only now, as in cpu.load
	}
	return true
}
