package binary

import (
	"golang.org/x/sys/unix"

	"ustack/tracefs/ring"
)

// chunkSize is how much memory is taken at once.
const chunkSize = 1 << 20

// chunk is a piece of memory outside of Go's heap: the garbage collector need not know what
// is there for a moment only.
type chunk struct {
	mem  []byte
	at   int // the rest is free
	uses int // sub-buffers in it
}

// room is memory for sub-buffers, up to a limit.
type room struct {
	most  int64
	grown func(bytes int64)
	// open is where the next sub-buffer goes, spare a chunk that has become free; nil for
	// none.
	open, spare *chunk
	used, peak  int64
}

// has reports whether there is room for a sub-buffer, and makes it.
func (r *room) has(size int) bool {
	if r.open != nil && len(r.open.mem)-r.open.at >= size {
		return true
	}
	if size > chunkSize {
		return false
	}
	c := r.spare
	r.spare = nil
	if c == nil {
		if r.used+chunkSize > r.most {
			return false
		}
		mem, err := unix.Mmap(-1, 0, chunkSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return false // no memory: as if that were the limit
		}
		c = &chunk{mem: mem}
		r.used += chunkSize
		if r.used > r.peak {
			r.peak = r.used
			r.grown(r.peak)
		}
	}
	old := r.open
	r.open = c
	if old != nil && old.uses == 0 {
		r.drop(old)
	}
	return true
}

// copy copies what has been written of a sub-buffer. ok is false if there is no room.
func (r *room) copy(l *ring.Layout, page []byte) (data []byte, in *chunk, ok bool) {
	if len(page) < l.Data || !r.has(max(l.Size, len(page))) {
		return nil, nil, false
	}
	c := r.open
	n := l.Copy(c.mem[c.at:], page)
	data = c.mem[c.at:][:n]
	const align = 8 // of the commit word
	c.at = min((c.at+n+align-1)&^(align-1), len(c.mem))
	c.uses++
	return data, c, true
}

// release gives up a sub-buffer; nil is none of ours.
func (r *room) release(c *chunk) {
	if c == nil {
		return
	}
	if c.uses--; c.uses > 0 {
		return
	}
	if c == r.open {
		c.at = 0
		return
	}
	r.drop(c)
}

// drop gives a chunk back that has no sub-buffer, or keeps it as the spare one.
func (r *room) drop(c *chunk) {
	c.at = 0
	if r.spare == nil {
		r.spare = c
		return
	}
	r.used -= chunkSize
	_ = unix.Munmap(c.mem) // it was mapped so
}

// free gives the chunks back that have no sub-buffers. The room is not used any more.
func (r *room) free() {
	for _, c := range []*chunk{r.open, r.spare} {
		if c != nil {
			_ = unix.Munmap(c.mem)
		}
	}
	r.open, r.spare = nil, nil
}
