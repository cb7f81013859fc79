package perfdata

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// maxPending bounds the memory for records that wait for their turn, in bytes. A round has
// what fits in the rings of all CPUs, and two of them wait: enough for 128 MiB of rings.
const maxPending = 256 << 20

// ordered gives the records of a file in order of time.
//
// perf marks rounds in a file (see queue), but not in the files of a directory. There each
// file is read twice: the first time to know before which time no record comes from a place
// on. What is earlier than that in all files can go out.
type ordered struct {
	file    *File
	slabs   slabs
	streams []*reading
	queue   queue
	beside  bool // samples and their deferred stacks are passed over
	most    int  // maxPending, but in tests
	last    entry
	held    bool // last is held
	forced  int64
	aux     int64   // records with AUX data after them
	errs    []error // of parts that have ended
	err     error   // of all of them, once all have
}

// reading is where a part is read.
type reading struct {
	part   *part
	stream *stream
	taken  int // records
	ended  bool
}

// floor returns a time before which no more records come from the part.
func (r *reading) floor() uint64 {
	if k := r.taken / r.part.block; !r.ended && k < len(r.part.floors) {
		return r.part.floors[k]
	}
	return latest
}

// newOrdered reads a file. read is called with the number of bytes read; it may be nil.
func newOrdered(f *File, read func(int)) *ordered {
	const together = 64 << 20 // bytes for what is read at once
	o := &ordered{file: f, most: maxPending}
	o.slabs.size = min(max(together/len(f.parts), 2*maxRecordSize), slabSize)
	for _, p := range f.parts {
		if p.floors == nil && len(f.parts) > 1 {
			p.findFloors(f)
		}
		o.streams = append(o.streams, &reading{part: p, stream: p.records(f.order, &o.slabs, read)})
	}
	return o
}

// maxRecordSize bounds a record, whose header has 16 bits for it.
const maxRecordSize = 64 << 10

func (o *ordered) close() {
	for _, r := range o.streams {
		r.stream.close()
	}
}

// next returns the next record. It is valid until the next call. After the last one it
// returns the error that ended the reading, io.EOF for the end of the file.
func (o *ordered) next() ([]byte, header, error) {
	if o.held {
		o.held = false
		o.slabs.release(o.last.slab)
	}
	for {
		if e, ok := o.queue.pop(); ok {
			o.last, o.held = e, true
			b := o.slabs.all[e.slab].buf[e.off:]
			h := o.file.order.header(b)
			return b[:h.size:h.size], h, nil
		}
		if o.err != nil {
			if len(o.queue.pending) == 0 {
				return nil, header{}, o.err
			}
			o.queue.flush(latest)
			continue
		}
		if len(o.streams) > 1 {
			o.fillTogether()
		} else {
			o.fill(o.streams[0])
		}
	}
}

// fill reads records until some are ready, or none are left.
func (o *ordered) fill(from *reading) {
	for o.queue.next == len(o.queue.ready) {
		o.takeRun(from.stream.source())
		if typ := o.take(from); from.ended {
			return
		} else if typ == recordRound {
			o.queue.mark()
		}
	}
}

// fillTogether reads blocks of the parts until some records are ready, or none are left: the
// next one of the part that holds up the others.
func (o *ordered) fillTogether() {
	for o.queue.next == len(o.queue.ready) {
		from := o.streams[0]
		for _, r := range o.streams[1:] {
			if !r.ended && (from.ended || r.floor() < from.floor()) {
				from = r
			}
		}
		if from.ended {
			return
		}
		for first := true; first || from.taken%from.part.block > 0; first = false {
			if o.take(from); from.ended {
				break
			}
			if from.taken++; o.queue.next < len(o.queue.ready) {
				return
			}
		}
		bound := latest
		for _, r := range o.streams {
			bound = min(bound, r.floor())
		}
		if bound > o.queue.passed+1 {
			o.queue.flush(bound - 1) // others of this time may come, earlier in the order of parts
		}
	}
}

// take takes the next record of a part, and returns its type.
func (o *ordered) take(from *reading) uint32 {
	rec, h, at, err := from.stream.next()
	if err == nil {
		err = from.stream.follows(h, rec)
	}
	if err != nil {
		o.end(from, from.part.truncated(from.stream, err))
		return 0
	}
	if h.typ == recordAuxTrace {
		o.aux++
	}
	if h.typ >= firstUserRecord || o.beside && ofSample(h.typ) {
		return h.typ
	}
	o.queue.add(o.file.events.when(h, rec), at)
	o.slabs.hold(at.slab)
	if o.slabs.used() > o.most {
		o.forced++
		o.queue.half()
	}
	return h.typ
}

// takeRun takes records of the kernel that are in memory as a whole, up to the first other
// one: as take does, for most of the records of a file.
func (o *ordered) takeRun(c *cutter) {
	if o.slabs.used() > o.most || !c.begun {
		return
	}
	slab, begin := o.slabs.all[c.slab], c.at
	at, b := begin, slab.buf[:c.end]
	for len(b)-at >= headerSize {
		rec := b[at:]
		h := c.order.header(rec)
		if h.typ >= firstUserRecord || h.size < headerSize || h.size > len(rec) {
			break
		}
		if !o.beside || !ofSample(h.typ) {
			o.queue.add(o.file.events.when(h, rec[:h.size]), place{c.slab, uint32(at)})
			slab.live++
		}
		at += h.size
	}
	c.at, c.pos = at, c.pos+int64(at-begin)
}

// ofSample reports whether a record of a type is a sample or a part of one.
func ofSample(typ uint32) bool { return typ == unix.PERF_RECORD_SAMPLE || typ == recordDeferred }

// end ends the reading of a part, and after the last one all of it.
func (o *ordered) end(r *reading, err error) {
	r.ended = true
	if err != io.EOF {
		if r.part.name != "" {
			err = fmt.Errorf("%s: %w", r.part.name, err)
		}
		o.errs = append(o.errs, err)
	}
	for _, other := range o.streams {
		if !other.ended {
			return
		}
	}
	if o.err = errors.Join(o.errs...); o.err == nil {
		o.err = io.EOF
	}
}

// notes are remarks about the order.
func (o *ordered) notes() (list []string) {
	if o.queue.unordered > 0 {
		list = append(list, fmt.Sprintf("%d records came after later ones", o.queue.unordered))
	}
	if o.aux > 0 {
		list = append(list, fmt.Sprintf("%d pieces of AUX data (hardware traces, like Intel PT) are passed over: their stacks and branches are not in the output", o.aux))
	}
	if o.forced > 0 {
		list = append(list, fmt.Sprintf("records of a round had more than %d MiB and were put in order in parts", o.most>>20))
	}
	return list
}
