package pagefile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// errFull: a chunk does not fit into the file any more. None of it is there.
var errFull = errors.New("the report has its largest size")

// writer writes chunks.
type writer struct {
	w     io.Writer
	z     *zstd.Encoder
	max   int64 // 0 for no bound
	size  int64 // of the file
	chain uint32
	buf   []byte
}

// newWriter begins a file.
func newWriter(w io.Writer, most int64) (*writer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(chunkSize), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("beginning a report of pages: %w", err)
	}
	out := &writer{w: w, z: z, max: most}
	return out, out.write([]byte(Magic))
}

func (w *writer) write(b []byte) error {
	n, err := w.w.Write(b)
	w.size += int64(n)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// chunk writes a chunk, if keep bytes are left after it; else it returns errFull.
func (w *writer) chunk(k kind, cpu int32, data []byte, keep int64) error {
	room := make([]byte, headSize)
	w.buf = w.z.EncodeAll(data, append(w.buf[:0], room...))
	frame := w.buf[headSize:]
	if w.max > 0 && w.size+int64(len(w.buf))+keep > w.max {
		return errFull
	}
	h := head{k, uint32(cpu), uint32(len(frame)), uint32(len(data)), crc32.Checksum(frame, castagnoli())}
	_, chain := h.append(w.buf[:0], w.chain)
	w.chain = chain
	return w.write(w.buf)
}
