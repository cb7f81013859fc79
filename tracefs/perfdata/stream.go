package perfdata

import (
	"errors"
	"io"
)

// Records that perf itself writes (enum perf_user_event_type of
// tools/lib/perf/include/perf/event.h).
const (
	recordHeaderAttr  = 64
	recordTracingData = 66
	recordBuildID     = 67
	recordRound       = 68
	recordIDIndex     = 69
	recordAuxTrace    = 71
	recordEventUpdate = 78
	recordTimeConv    = 79
	recordFeature     = 80
	recordCompressed  = 81
	recordCompressed2 = 83
	recordDeferred    = 22 // PERF_RECORD_CALLCHAIN_DEFERRED, of the kernel (Linux 6.19)
	firstUserRecord   = 64
)

// slabSize is how much is read at once. A record has at most 64 KiB.
const slabSize = 512 << 10

// slab is a piece of a file in memory. It is used again once no record in it waits.
type slab struct {
	buf  []byte
	live int // records that wait
}

// slabs are the pieces that are in memory, each of a size that a record fits in.
type slabs struct {
	size int
	all  []*slab
	free []uint32
}

// get returns an empty slab.
func (s *slabs) get() uint32 {
	if n := len(s.free) - 1; n >= 0 {
		i := s.free[n]
		s.free = s.free[:n]
		return i
	}
	s.all = append(s.all, &slab{buf: make([]byte, s.size)})
	return uint32(len(s.all) - 1)
}

// hold and release count a record that waits. Whoever cuts records holds the slab, too.
func (s *slabs) hold(i uint32) { s.all[i].live++ }

func (s *slabs) release(i uint32) {
	p := s.all[i]
	if p.live--; p.live == 0 {
		s.free = append(s.free, i)
	}
}

// used returns how many bytes of memory hold records.
func (s *slabs) used() int { return (len(s.all) - len(s.free)) * s.size }

// place is where a record is in memory.
type place struct{ slab, off uint32 }

// cutter cuts a stream into records.
type cutter struct {
	order
	slabs *slabs
	// fill reads more bytes. A cutter may go on after errNoInput.
	fill    func([]byte) (int, error)
	slab    uint32
	begun   bool
	at, end int
	pos     int64 // of at, in the stream
}

// errNoInput: a compressed record has been decompressed to its end.
var errNoInput = errors.New("no more input at present")

// next returns the next record. It is valid until the slab is released. The error is
// io.EOF at the end of a whole stream.
func (c *cutter) next() (rec []byte, h header, at place, err error) {
	if err = c.need(headerSize); err != nil {
		return nil, h, at, err
	}
	h = c.order.header(c.rest())
	if h.size < headerSize {
		return nil, h, at, malformed(c.pos, "a record of %d bytes", h.size)
	}
	if err = c.need(h.size); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, h, at, err
	}
	at = place{c.slab, uint32(c.at)}
	rec = c.rest()[:h.size:h.size]
	c.at += h.size
	c.pos += int64(h.size)
	return rec, h, at, nil
}

func (c *cutter) rest() []byte { return c.slabs.all[c.slab].buf[c.at:c.end] }

// need makes sure that there are n bytes, at most those of a record. The error is io.EOF
// if there are none at all.
func (c *cutter) need(n int) error {
	for c.end-c.at < n {
		if !c.begun || c.at+n > c.slabs.size {
			c.turn()
		}
		got, err := c.fill(c.slabs.all[c.slab].buf[c.end:])
		c.end += got
		if err != nil && c.end-c.at < n {
			if err == io.EOF && c.end > c.at {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// turn goes on in another slab.
func (c *cutter) turn() {
	next := c.slabs.get()
	c.slabs.hold(next)
	n := 0
	if c.begun {
		n = copy(c.slabs.all[next].buf, c.rest())
		c.slabs.release(c.slab)
	}
	c.slab, c.at, c.end, c.begun = next, 0, n, true
}

// skip passes over bytes that are no records. The error is io.ErrUnexpectedEOF if there are fewer.
func (c *cutter) skip(n int64) error {
	for n > 0 {
		err := c.need(1)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		m := min(int64(c.end-c.at), n)
		c.at, c.pos, n = c.at+int(m), c.pos+m, n-m
	}
	return nil
}

// take takes bytes that are no records.
func (c *cutter) take(n int64) ([]byte, error) {
	const surely = 1 << 20 // more only if the file has it
	out := make([]byte, 0, min(n, surely))
	for int64(len(out)) < n {
		if err := c.need(1); err != nil {
			return nil, err
		}
		m := min(int64(c.end-c.at), n-int64(len(out)))
		out = append(out, c.rest()[:m]...)
		c.at, c.pos = c.at+int(m), c.pos+m
	}
	return out, nil
}

// stream gives the records of a file, decompressed.
type stream struct {
	outer  cutter
	inner  cutter
	unpack *unpacker
	inside bool // of a compressed record
}

// newStream reads records from r on, into slabs. The first byte is at pos of the file.
func newStream(o order, to *slabs, r io.Reader, pos int64) *stream {
	s := new(stream)
	s.outer = cutter{order: o, slabs: to, fill: r.Read, pos: pos}
	s.inner = cutter{order: o, slabs: to}
	return s
}

// source returns what the next records are cut from.
func (s *stream) source() *cutter {
	if s.inside {
		return &s.inner
	}
	return &s.outer
}

// next returns the next record but the compressed ones, of which it returns the
// contents. Errors say at which byte of the file they are.
func (s *stream) next() (rec []byte, h header, at place, err error) {
	for {
		if s.inside {
			rec, h, at, err = s.inner.next()
			if err == nil {
				return rec, h, at, nil
			}
			if err != errNoInput {
				return nil, h, at, malformed(s.outer.pos, "in the compressed record before it: %v", err)
			}
			s.inside = false
		}
		begin := s.outer.pos
		rec, h, at, err = s.outer.next()
		switch {
		case err == io.ErrUnexpectedEOF:
			return nil, h, at, malformed(begin, "the file ends inside a record")
		case err != nil:
			return nil, h, at, err
		case h.typ != recordCompressed && h.typ != recordCompressed2:
			return rec, h, at, nil
		}
		if err := s.decompress(rec, h, begin); err != nil {
			return nil, h, at, err
		}
	}
}

// follows passes over bytes after a record that are no record.
func (s *stream) follows(h header, rec []byte) error {
	if h.typ != recordTracingData && h.typ != recordAuxTrace { // inlined
		return nil
	}
	return s.skipAfter(h, rec)
}

func (s *stream) skipAfter(h header, rec []byte) error {
	v := fields{order: s.outer.order, rest: rec[headerSize:]}
	var size int64
	if h.typ == recordTracingData {
		size = int64(padded(v.word32()))
	} else {
		size = int64(min(v.word64(), 1<<62))
	}
	begin := s.outer.pos
	if err := s.outer.skip(size); err != io.ErrUnexpectedEOF {
		return err
	}
	return malformed(begin, "the file ends inside of %d bytes that belong to the record before it", size)
}

// decompress begins a compressed record.
func (s *stream) decompress(rec []byte, h header, begin int64) error {
	data := rec[headerSize:]
	if h.typ == recordCompressed2 { // padded, so it has a size of its own
		if len(data) < 8 {
			return malformed(begin, "a compressed record without a size")
		}
		n := s.outer.u64(data)
		if data = data[8:]; n > uint64(len(data)) {
			return malformed(begin, "a compressed record of %d bytes that should have %d", len(data), n)
		}
		data = data[:n]
	}
	if s.unpack == nil {
		s.unpack = newUnpacker()
		s.inner.fill = s.unpack.read
	}
	s.unpack.feed(data)
	s.inside = true
	return nil
}

// close ends the decompression.
func (s *stream) close() {
	if s.unpack != nil {
		s.unpack.close()
	}
}
