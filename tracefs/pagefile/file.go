package pagefile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"

	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/sorting"
)

// File is an opened report of pages.
type File struct {
	// Kernel is the kernel that the pages are of, with the names of its threads.
	Kernel *tracebinary.Kernel
	// Expanded is the size of all that is in the chunks.
	Expanded int64

	r    io.ReaderAt
	size int64
	z    *zstd.Decoder
	head []byte
	end  []byte
	// notes are remarks of the writer.
	notes []string
	names names
	log   []int64 // where its chunks are
	cpus  []*cpuChunks
	err   error // why the file ends before its end
}

// cpuChunks are the chunks with the pages of a CPU.
type cpuChunks struct {
	cpu   int32
	at    []int64
	sizes int64 // of what is in them
	most  int64 // that is in one
}

// Bounds of a file.
const (
	maxCPUs   = 1 << 13 // NR_CPUS is not more on any architecture
	maxChunks = 1 << 24
	// maxBuffers bounds the memory for one chunk of each CPU.
	maxBuffers = 512 << 20
	// maxLines bounds the head, the notes and the end, maxComms the names of threads.
	maxLines = 1 << 20
	maxComms = 32 << 20
)

var (
	errKind    = errors.New("a chunk of an unknown kind: the file is of another version of ustack")
	errTooMuch = errors.New("more than a report of pages has")
)

// Open opens a file. If it was cut, or is damaged, what is before that can be read, and
// the error comes at the end of its records.
func Open(r io.ReaderAt, size int64) (*File, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxChunk))
	if err != nil {
		return nil, fmt.Errorf("preparing zstd: %w", err)
	}
	f := &File{r: r, size: size, z: z, names: names{byTID: make(map[int32][]called)}}
	if err := f.index(); err != nil {
		z.Close()
		return nil, err
	}
	return f, nil
}

// Close ends the reading; the file itself stays open.
func (f *File) Close() { f.z.Close() }

// index finds the chunks, and reads those that are not pages and not the log.
func (f *File) index() error {
	magic := make([]byte, len(Magic))
	if _, err := f.r.ReadAt(magic, 0); err != nil && err != io.EOF {
		return fmt.Errorf("reading a report of pages: %w", err)
	}
	if string(magic) != Magic {
		return errors.New("reading a report of pages: it is of another version of ustack, or was changed when it was copied")
	}
	in := indexer{File: f, heads: heads{r: f.r, size: f.size, at: int64(len(Magic))}}
	f.err = in.chunks()
	f.names.order()
	return in.finish()
}

// indexer reads the chunks of a file in order.
type indexer struct {
	*File
	heads
	meta          []tracebinary.MetaFile
	metas, comms  int64
	lines, chunkN int
	byCPU         map[uint32]*cpuChunks
}

// chunks reads all chunks up to the end, or to an error.
func (in *indexer) chunks() error {
	in.byCPU = make(map[uint32]*cpuChunks)
	for in.end == nil {
		at := in.heads.at
		h, err := in.next()
		if err == nil {
			err = in.chunk(h, at)
		}
		if err != nil {
			return fmt.Errorf("its end is missing, byte %d: %w", at, err)
		}
	}
	if left := in.heads.size - in.heads.at; left > 0 {
		return fmt.Errorf("%d bytes after its end: each report of pages is read by itself", left)
	}
	return nil
}

// chunk takes a chunk.
func (in *indexer) chunk(h *head, at int64) error {
	if in.chunkN++; in.chunkN > maxChunks {
		return errTooMuch
	}
	in.Expanded += int64(h.size)
	switch h.kind {
	case kindPages:
		return in.pages(h, at)
	case kindLog:
		in.log = append(in.log, at)
		return nil
	case kindMeta, kindHead, kindComms, kindNote, kindEnd:
	default:
		return errKind
	}
	data, err := in.unpack(nil, at)
	if h.kind == kindComms {
		if in.comms += int64(len(data)); in.comms > maxComms {
			return errTooMuch
		}
		if err != nil || in.names.parse(data) != nil {
			in.names.damaged = true
		}
		return nil
	}
	if err != nil {
		return err
	}
	return in.small(h.kind, data)
}

// small takes what there is once, or seldom.
func (in *indexer) small(k kind, data []byte) (err error) {
	if k == kindMeta {
		if in.metas += int64(len(data)); in.metas > maxMeta {
			return errTooMuch
		}
		in.meta, err = parseMeta(in.meta, data)
		return err
	}
	if in.lines += len(data); in.lines > maxLines {
		return errTooMuch
	}
	switch k {
	case kindHead:
		in.head = append(in.head, data...)
	case kindNote:
		in.notes = append(in.notes, string(data))
	case kindEnd:
		in.File.end = append([]byte{}, data...)
	}
	return nil
}

// pages notes a chunk of pages.
func (in *indexer) pages(h *head, at int64) error {
	c := in.byCPU[h.cpu]
	if c == nil {
		if h.cpu >= maxCPUs {
			return errTooMuch
		}
		c = &cpuChunks{cpu: int32(h.cpu)}
		in.byCPU[h.cpu] = c
		in.cpus = append(in.cpus, c)
	}
	c.at = append(c.at, at)
	c.sizes += int64(h.size)
	c.most = max(c.most, int64(h.size))
	return nil
}

// finish checks that there is what all else needs.
func (in *indexer) finish() error {
	f := in.File
	if len(in.meta) == 0 {
		return fmt.Errorf("reading a report of pages: %w", cmpErr(f.err, errMeta))
	}
	k, err := tracebinary.ParseMeta(in.meta)
	if err != nil {
		return fmt.Errorf("reading a report of pages: %w", err)
	}
	buffers := int64(0)
	for _, c := range in.cpus {
		buffers += c.most
	}
	if buffers > maxBuffers {
		return fmt.Errorf("reading a report of pages: it needs %d bytes of memory, %d is the most", buffers, int64(maxBuffers))
	}
	sorting.Func(in.cpus, func(a, b *cpuChunks) int { return int(a.cpu) - int(b.cpu) })
	k.Names = &f.names
	f.Kernel = k
	return nil
}

// cmpErr returns the first error that is one.
func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// heads reads the heads of chunks in order.
type heads struct {
	r     io.ReaderAt
	size  int64
	at    int64
	chain uint32
	buf   []byte // of the file from start on
	start int64
	h     head
}

// window is how much of the file is read for its heads at once.
const window = 4 << 10

// next returns the next head, which is whole, and so is its chunk.
func (in *heads) next() (*head, error) {
	b, err := in.read(headSize)
	if err != nil {
		return nil, err
	}
	chain, err := in.h.parse(b, in.chain)
	if err != nil {
		return nil, err
	}
	if int64(in.h.packed) > in.size-in.at-headSize {
		return nil, io.ErrUnexpectedEOF
	}
	in.chain = chain
	in.at += headSize + int64(in.h.packed)
	return &in.h, nil
}

// read returns bytes at the place that is read next.
func (in *heads) read(n int64) ([]byte, error) {
	if in.at+n > in.size {
		return nil, io.ErrUnexpectedEOF
	}
	if from := in.at - in.start; from >= 0 && from+n <= int64(len(in.buf)) {
		return in.buf[from : from+n], nil
	}
	if in.buf == nil {
		in.buf = make([]byte, window)
	}
	in.buf = in.buf[:min(window, in.size-in.at)]
	if _, err := in.r.ReadAt(in.buf, in.at); err != nil {
		in.buf = in.buf[:0]
		if err == io.EOF { // it was cut meanwhile
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	in.start = in.at
	return in.buf[:n], nil
}

// errChunk: what a chunk has is not what was written.
var errChunk = errors.New("a damaged chunk")

// unpack returns what is in the chunk at a place of the file, of which the head was read
// before.
func (f *File) unpack(into []byte, at int64) ([]byte, error) {
	b := make([]byte, headSize)
	if _, err := f.r.ReadAt(b, at); err != nil {
		return nil, fmt.Errorf("byte %d: %w", at, err)
	}
	var h head
	h.fields(b)
	if int64(h.packed) > f.size-at-headSize || h.size > maxChunk {
		return nil, fmt.Errorf("byte %d: %w", at, errChunk) // it was changed meanwhile
	}
	frame := make([]byte, h.packed)
	if _, err := f.r.ReadAt(frame, at+headSize); err != nil && err != io.EOF {
		return nil, fmt.Errorf("byte %d: %w", at, err)
	}
	if crc32.Checksum(frame, castagnoli()) != h.sum {
		return nil, fmt.Errorf("byte %d: %w", at, errChunk)
	}
	data, err := f.z.DecodeAll(frame, into[:0])
	if err != nil || len(data) != int(h.size) {
		return nil, fmt.Errorf("byte %d: %w (%d bytes in place of %d)", at, errChunk, len(data), h.size)
	}
	return data, nil
}
