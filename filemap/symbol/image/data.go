package image

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxUnpacked bounds what the compressed sections of a file may become in all,
// maxRatio how many times more than it is one may become. Debug information
// shrinks to a third or a tenth.
//
// maxGrowth is how much larger than its contents the packed section may be: linkers leave
// those as they are that packing makes larger.
const (
	maxUnpacked = 1 << 29
	maxRatio    = 100
	maxGrowth   = 4 << 10
)

// maxWindow bounds the memory of the decoder itself.
const maxWindow = 128 << 20

// errTooLarge is the error of something that goes beyond a bound.
var errTooLarge = errors.New("larger than it can be")

// Data is the contents of a section: in memory if it was compressed, else
// read from the file when asked for. The zero Data is empty.
type Data struct {
	x    *Image
	off  uint64
	size uint64
	mem  []byte
}

// MemoryData returns a Data of bytes at hand.
func MemoryData(b []byte) Data { return Data{mem: b, size: uint64(len(b))} }

// Size returns the number of bytes, never more than can be read.
func (d *Data) Size() uint64 { return d.size }

// Memory returns how many bytes are kept in memory.
func (d *Data) Memory() int { return len(d.mem) }

// Bytes are n bytes from off on. They must not be changed.
func (d *Data) Bytes(off, n uint64) ([]byte, error) {
	if off > d.size || n > d.size-off {
		return nil, fmt.Errorf("%d bytes at %#x of a section of %d: %w", n, off, d.size, io.ErrUnexpectedEOF)
	}
	if d.mem != nil {
		return d.mem[off : off+n : off+n], nil
	}
	if n == 0 {
		return nil, nil
	}
	return d.x.read(d.off+off, n)
}

// maxString is the longest string of a string table that is read. Mangled
// names of a few kilobytes are common; of more, they are no use to people.
const maxString = 16 << 10

// String returns the zero-terminated string at a place. ok is false if there is
// none, or one longer than any name.
func (d *Data) String(off uint64) (s string, ok bool) {
	if off >= d.size {
		return "", false
	}
	for n := uint64(128); ; n *= 8 {
		b, err := d.Bytes(off, min(n, d.size-off))
		if err != nil {
			return "", false
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(b[:end]), true
		}
		if n >= maxString || uint64(len(b)) < n {
			return "", false
		}
	}
}

// Data opens the contents of a section. A section that is missing, or not in
// this file, is empty.
func (x *Image) Data(s *Section) (Data, error) {
	if s == nil || s.Type == elf.SHT_NOBITS || s.Size == 0 {
		return Data{}, nil
	}
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		b, err := x.unpack(s)
		if err != nil {
			return Data{}, fmt.Errorf("unpacking %s: %w", s.Name, err)
		}
		return MemoryData(b), nil
	}
	if s.Off >= x.size {
		return Data{}, fmt.Errorf("%s at %#x of a file of %d bytes: %w", s.Name, s.Off, x.size, io.ErrUnexpectedEOF)
	}
	return Data{x: x, off: s.Off, size: min(s.Size, x.size-s.Off)}, nil
}

// raw reads all of a section as it stands in the file.
func (x *Image) raw(s *Section, atMost uint64) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	if s.Size > atMost {
		return nil, fmt.Errorf("%d bytes: %w", s.Size, errTooLarge)
	}
	return x.read(s.Off, s.Size)
}

// unpack reads a compressed section (SHF_COMPRESSED, man 5 elf: Elf64_Chdr). Only what
// it becomes is in memory: a file with holes can say that the packed bytes are more than
// any memory.
func (x *Image) unpack(s *Section) ([]byte, error) {
	head := uint64(12)
	if x.wide {
		head = 24
	}
	if s.Type == elf.SHT_NOBITS || s.Size < head || s.Off > x.size || s.Size > x.size-s.Off {
		return nil, io.ErrUnexpectedEOF
	}
	b, err := x.read(s.Off, head)
	if err != nil {
		return nil, err
	}
	size := uint64(0)
	if x.wide {
		size = x.Order.Uint64(b[8:])
	} else {
		size = uint64(x.Order.Uint32(b[4:]))
	}
	packed := s.Size - head
	if x.unpacked += min(size, maxUnpacked+1); x.unpacked > maxUnpacked || size/maxRatio > packed || packed > size+maxGrowth {
		return nil, fmt.Errorf("%d bytes packed as %d: %w", size, packed, errTooLarge)
	}
	r, err := decompress(elf.CompressionType(x.Order.Uint32(b)), io.NewSectionReader(x.r, int64(s.Off+head), int64(packed)))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := make([]byte, size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, err
	}
	return out, nil
}

// decompress reads what was packed in this way.
func decompress(kind elf.CompressionType, packed io.Reader) (io.ReadCloser, error) {
	switch kind {
	case elf.COMPRESS_ZLIB:
		return zlib.NewReader(packed)
	case elf.COMPRESS_ZSTD:
		z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("unknown %v", kind)
}
