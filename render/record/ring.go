package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"ustack/tracefs"
)

// Ring keeps the last text of a trace in memory, compressed.
type Ring struct {
	opt    RingOptions
	z      *zstd.Encoder
	d      *zstd.Decoder
	chunks []chunk
	size   int64  // of the chunks
	buf    []byte // text of the chunk at hand
	begun  time.Time
	from   tracefs.Time // of the text of the chunk at hand, see chunk
	at     tracefs.Time // of the text that is written next
	has    Left         // the events and stacks in the text of the chunk at hand
	taken  int64        // all that was written, compressed
	number int64        // of the chunk at hand
	// Before, if it is set, returns the text that comes before a chunk in a report that begins
	// with that one, and is no longer than room.
	Before func(chunk int64, room int64) []byte
}

// RingOptions bound a Ring. Zero fields do not bound.
type RingOptions struct {
	Bytes int64         // compressed
	Time  time.Duration // how far back it goes
}

// chunk is a part of the text.
type chunk struct {
	data []byte
	to   time.Time
	from tracefs.Time // no event in it is older, 0 if unknown
	has  Left
}

// A chunk is full when it has this much text, or is this old.
const (
	chunkText = 256 << 10
	chunkTime = time.Second
)

// NewRing returns an empty ring.
func NewRing(opt RingOptions) (*Ring, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(chunkText))
	if err != nil {
		return nil, fmt.Errorf("making a ring: %w", err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("making a ring: %w", err)
	}
	return &Ring{opt: opt, z: z, d: d}, nil
}

// At notes that the first event in the text that is written next is of a time.
func (r *Ring) At(at tracefs.Time) { r.at = at }

// Oldest returns a time before which no event is that WriteTo writes to a report with this
// room; most often it is the time of the first one. It is 0 if it is unknown.
func (r *Ring) Oldest(room int64, now time.Time) tracefs.Time {
	r.close(now)
	r.drop(now)
	if first := newest(r.chunks, room); first < len(r.chunks) {
		return r.chunks[first].from
	}
	return 0
}

// Write adds text that came now, and that has so many events and stacks. A Write is never
// parted.
func (r *Ring) Write(p []byte, has Left, now time.Time) {
	if len(r.buf) == 0 {
		r.begun, r.from = now, r.at
	}
	r.buf = append(r.buf, p...)
	r.has.add(has)
	if len(r.buf) >= chunkText || now.Sub(r.begun) >= chunkTime {
		r.close(now)
	}
	r.drop(now)
}

// Taken returns how many bytes, compressed, all text took that has been written so far, but for
// the last piece of at most chunkText.
func (r *Ring) Taken() int64 { return r.taken }

// close ends the chunk at hand.
func (r *Ring) close(now time.Time) {
	if len(r.buf) == 0 {
		return
	}
	data := r.z.EncodeAll(r.buf, nil)
	r.chunks = append(r.chunks, chunk{data: append([]byte(nil), data...), to: now, from: r.from, has: r.has})
	r.size += int64(len(data))
	r.taken += int64(len(data))
	r.buf, r.has = r.buf[:0], Left{}
	r.number++
}

// Chunk returns the number of the chunk that the text will be in that is written next. Numbers
// grow.
func (r *Ring) Chunk() int64 { return r.number }

// drop releases chunks that are too old or too many.
func (r *Ring) drop(now time.Time) {
	n := 0
	for n < len(r.chunks) && (r.opt.Bytes > 0 && r.size > r.opt.Bytes || r.opt.Time > 0 && now.Sub(r.chunks[n].to) > r.opt.Time) {
		r.size -= int64(len(r.chunks[n].data))
		n++
	}
	if n > 0 {
		r.chunks = append(r.chunks[:0:0], r.chunks[n:]...)
	}
}

// WriteTo writes all text that is kept to a report, the newest part of it if
// there is no room for all, and returns how many events and stacks the ring had, and how many
// of them were left out. The ring is empty then.
func (r *Ring) WriteTo(f *File, now time.Time) (had, left Left, err error) {
	r.close(now)
	r.drop(now)
	chunks := r.chunks
	r.chunks, r.size = nil, 0
	for _, c := range chunks {
		had.add(c.has)
	}
	const part, most = 8, 1 << 20
	room := int64(0) // for the text before
	if r.Before != nil {
		room = min(f.Room()/part, most)
	}
	first := newest(chunks, f.Room()-room)
	for _, c := range chunks[:first] {
		left.add(c.has)
	}
	chunks = chunks[first:]
	if room > 0 && len(chunks) > 0 {
		if _, err = f.Write(r.Before(r.number-int64(len(chunks)), room)); err != nil {
			return had, left, leftOut(&left, chunks, err)
		}
	}
	var text []byte
	for i, c := range chunks {
		if text, err = r.d.DecodeAll(c.data, text[:0]); err != nil {
			return had, left, fmt.Errorf("reading the events of the ring: %w", err)
		}
		if _, err := f.Write(text); err != nil {
			return had, left, leftOut(&left, chunks[i:], err)
		}
	}
	return had, left, nil
}

// leftOut counts chunks that are left out, as a report is full.
func leftOut(left *Left, chunks []chunk, err error) error {
	if !errors.Is(err, ErrFull) {
		return err
	}
	for _, c := range chunks {
		left.add(c.has)
	}
	return nil
}

// newest returns the first of the last chunks that have room together.
func newest(chunks []chunk, room int64) (first int) {
	first = len(chunks)
	for first > 0 && int64(len(chunks[first-1].data)) <= room {
		first--
		room -= int64(len(chunks[first].data))
	}
	return first
}
