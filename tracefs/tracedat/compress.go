package tracedat

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// codec decompresses what one file's compressor made.
type codec interface {
	// unpack appends the decompressed data, which must have size bytes, at
	// most limit.
	unpack(dst, data []byte, size, limit int) ([]byte, error)
}

func newCodec(name string) (codec, error) {
	switch name {
	case "none", "":
		return uncompressed{}, nil
	case "zlib":
		return zlibCodec{}, nil
	case "zstd":
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxText))
		if err != nil {
			return nil, fmt.Errorf("preparing zstd: %w", err)
		}
		return zstdCodec{d}, nil
	}
	return nil, fmt.Errorf("compressed with %.20q; zlib and zstd are known", name)
}

var errPacked = errors.New("compressed data in a file that names no compressor")

type uncompressed struct{}

func (uncompressed) unpack(_, _ []byte, _, _ int) ([]byte, error) { return nil, errPacked }

func checkSize(size, limit int) error {
	if size < 0 || size > limit {
		return fmt.Errorf("%d bytes, %d is the most", size, limit)
	}
	return nil
}

type zlibCodec struct{}

func (zlibCodec) unpack(dst, data []byte, size, limit int) ([]byte, error) {
	if err := checkSize(size, limit); err != nil {
		return dst, err
	}
	r, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return dst, err
	}
	defer r.Close()
	b := bytes.NewBuffer(dst)
	n, err := io.Copy(b, io.LimitReader(r, int64(size)))
	if err == nil && n < int64(size) {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

type zstdCodec struct{ d *zstd.Decoder }

func (z zstdCodec) unpack(dst, data []byte, size, limit int) ([]byte, error) {
	if err := checkSize(size, limit); err != nil {
		return dst, err
	}
	from := len(dst)
	const surely = 1 << 20 // more only if the data have it
	dst = slices.Grow(dst, min(size, surely, 64*len(data)))
	dst, err := z.d.DecodeAll(data, dst)
	switch n := len(dst) - from; {
	case err != nil:
		return dst[:from], err
	case n != size:
		return dst[:from], fmt.Errorf("%d bytes instead of %d", n, size)
	}
	return dst, nil
}
