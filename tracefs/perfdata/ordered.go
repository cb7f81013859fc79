package perfdata

import (
	"fmt"
	"io"
)

// maxPending bounds the memory for records that wait for their turn, in bytes. A round has
// what fits in the rings of all CPUs, and two of them wait: enough for 128 MiB of rings.
const maxPending = 256 << 20

// ordered gives the records of a file in order of time.
type ordered struct {
	file   *File
	stream *stream
	queue  queue
	want   func(header) bool // nil for all
	most   int               // maxPending, but in tests
	last   entry
	held   bool // last is held
	forced int64
	err    error // of the stream, once it has ended
}

// newOrdered reads a file. read is called with the number of bytes read; it may be nil.
func newOrdered(f *File, read func(int)) *ordered {
	return &ordered{file: f, stream: f.records(read), most: maxPending}
}

func (o *ordered) close() { o.stream.close() }

// next returns the next record. It is valid until the next call. After the last one it
// returns the error that ended the reading, io.EOF for the end of the file.
func (o *ordered) next() ([]byte, header, error) {
	if o.held {
		o.held = false
		o.stream.slabs.release(o.last.slab)
	}
	for {
		if e, ok := o.queue.pop(); ok {
			o.last, o.held = e, true
			b := o.stream.slabs.all[e.slab].buf[e.off:]
			h := o.file.order.header(b)
			return b[:h.size:h.size], h, nil
		}
		if o.err != nil {
			if len(o.queue.pending) == 0 {
				return nil, header{}, o.err
			}
			o.queue.flush(^uint64(0))
			continue
		}
		o.fill()
	}
}

// fill reads records until some are ready, or none are left.
func (o *ordered) fill() {
	for o.queue.next == len(o.queue.ready) {
		rec, h, at, err := o.stream.next()
		if err != nil {
			o.err = o.truncated(err)
			return
		}
		switch h.typ {
		case recordRound:
			o.queue.mark()
			continue
		case recordTracingData, recordAuxTrace: // bytes that are no record follow
			if err := o.follows(h, rec); err != nil {
				o.err = o.truncated(err)
				return
			}
			continue
		}
		if h.typ >= firstUserRecord || o.want != nil && !o.want(h) {
			continue
		}
		o.queue.add(o.file.events.when(h, rec), at)
		o.stream.slabs.hold(at.slab)
		if o.stream.slabs.used() > o.most {
			o.forced++
			o.queue.half()
		}
	}
}

// follows passes over what follows a record.
func (o *ordered) follows(h header, rec []byte) error {
	v := fields{order: o.file.order, rest: rec[headerSize:]}
	n := int64(0)
	if h.typ == recordTracingData {
		n = int64(padded(v.word32()))
	} else {
		n = int64(min(v.word64(), 1<<62))
	}
	return o.stream.outer.skip(n)
}

// truncated returns the error of the end: a file may be shorter than its head says.
func (o *ordered) truncated(err error) error {
	f := o.file
	switch {
	case err == io.ErrUnexpectedEOF, err == io.EOF && f.data.size > f.size-f.data.at:
		return malformed(o.stream.outer.pos, "the file ends, its records should go on until byte %d", f.data.at+f.data.size)
	case err == io.EOF:
		return io.EOF
	}
	return err
}

// notes are remarks about the order.
func (o *ordered) notes() (list []string) {
	if o.queue.unordered > 0 {
		list = append(list, fmt.Sprintf("%d records came after later ones", o.queue.unordered))
	}
	if o.forced > 0 {
		list = append(list, fmt.Sprintf("records of a round had more than %d MiB and were put in order in parts", o.most>>20))
	}
	return list
}
