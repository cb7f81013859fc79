package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// Bounds on .gnu_debugdata, which holds the symbols of one file and no more.
const (
	maxDebugData  = 64 << 20
	maxDictionary = 64 << 20 // what xz -9 takes
	maxBlocks     = 64       // each has a dictionary
)

var errXZ = errors.New("not the xz format that .gnu_debugdata has")

// DebugData unpacks .gnu_debugdata: an ELF file within the ELF file, with the
// function symbols that .dynsym lacks ("MiniDebugInfo"). It is nil if there is
// none.
func (x *Image) DebugData() (*Image, error) {
	s := x.Section(".gnu_debugdata")
	if s == nil || s.Size == 0 {
		return nil, nil
	}
	b, err := x.raw(s, maxDebugData)
	if err == nil {
		b, err = unxz(b)
	}
	if err != nil {
		return nil, fmt.Errorf("unpacking .gnu_debugdata: %w", err)
	}
	return Open(bytes.NewReader(b), int64(len(b)))
}

// unxz unpacks a stream of xz. The reader of the xz package believes the size
// of the dictionary that a block asks for, up to 4 GiB; so blocks are taken
// apart here (xz-file-format.txt, sections 2 and 3), and only what is in them
// is left to that package.
func unxz(b []byte) ([]byte, error) {
	const magic = "\xfd7zXZ\x00"
	if len(b) < 12 || string(b[:6]) != magic || b[6] != 0 || crc32.ChecksumIEEE(b[6:8]) != binary.LittleEndian.Uint32(b[8:]) {
		return nil, errXZ
	}
	check := [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}[b[7]&15]
	var out bytes.Buffer
	rest := b[12:]
	for blocks := 0; len(rest) > 0 && rest[0] != 0; blocks++ { // 0 begins the index
		if blocks == maxBlocks {
			return nil, fmt.Errorf("more than %d blocks: %w", maxBlocks, errTooLarge)
		}
		n, err := unxzBlock(&out, rest)
		if err != nil {
			return nil, err
		}
		n = (n + 3) &^ 3
		if n+check > len(rest) {
			return nil, io.ErrUnexpectedEOF
		}
		rest = rest[n+check:]
	}
	return out.Bytes(), nil
}

// unxzBlock unpacks a block and returns how long it was, without padding and
// check.
func unxzBlock(out *bytes.Buffer, b []byte) (int, error) {
	head := (int(b[0]) + 1) * 4
	if head > len(b) {
		return 0, io.ErrUnexpectedEOF
	}
	dict, err := dictionary(b[:head])
	if err != nil {
		return 0, err
	}
	in := &counted{b: b[head:]}
	r, err := lzma.Reader2Config{DictCap: dict}.NewReader2(in)
	if err != nil {
		return 0, err
	}
	room := int64(maxDebugData - out.Len())
	n, err := io.Copy(out, io.LimitReader(r, room+1))
	if err == nil && n > room {
		err = errTooLarge
	}
	return head + in.n, err
}

// dictionary reads a block header: one filter, LZMA2.
func dictionary(h []byte) (int, error) {
	sum := len(h) - 4
	if crc32.ChecksumIEEE(h[:sum]) != binary.LittleEndian.Uint32(h[sum:]) || h[1]&^0xc0 != 0 {
		return 0, errXZ
	}
	rest := h[2:sum]
	for _, flag := range []byte{0x40, 0x80} { // the sizes, packed and not
		if h[1]&flag == 0 {
			continue
		}
		_, n := binary.Uvarint(rest)
		if n <= 0 {
			return 0, errXZ
		}
		rest = rest[n:]
	}
	const lzma2 = 0x21
	if len(rest) < 3 || rest[0] != lzma2 || rest[1] != 1 {
		return 0, errXZ
	}
	dict, err := lzma.DecodeDictCap(rest[2])
	if err != nil || dict > maxDictionary {
		return 0, fmt.Errorf("a dictionary of %d bytes: %w", dict, errXZ)
	}
	return int(dict), nil
}

// counted reads bytes and knows how many.
type counted struct {
	b []byte
	n int
}

var _ io.ByteReader = (*counted)(nil) // so that no buffer is put before it

func (c *counted) Read(p []byte) (int, error) {
	if c.n == len(c.b) {
		return 0, io.EOF
	}
	n := copy(p, c.b[c.n:])
	c.n += n
	return n, nil
}

func (c *counted) ReadByte() (byte, error) {
	if c.n == len(c.b) {
		return 0, io.EOF
	}
	c.n++
	return c.b[c.n-1], nil
}
