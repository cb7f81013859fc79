package table

import "ustack/filemap/symbol/image"

// blockSize is how much of a section is read at once, maxBlocks how many blocks
// of a section are kept.
const (
	blockSize = 32 << 10
	maxBlocks = 128
)

// blocks reads a section piece by piece and keeps the pieces, so that a look at
// one function costs no system call in most cases.
type blocks struct {
	data  image.Data
	whole []byte // all of it, if that is in memory
	kept  map[uint64][]byte
}

func newBlocks(d image.Data) blocks {
	b := blocks{data: d}
	if d.Memory() > 0 {
		b.whole, _ = d.Bytes(0, d.Size())
	}
	return b
}

func (b *blocks) size() uint64 { return b.data.Size() }

// memory returns how many bytes are kept.
func (b *blocks) memory() int { return len(b.whole) + len(b.kept)*blockSize }

// bytes are n bytes from off on, nil if the section does not have them. They
// must not be changed.
func (b *blocks) bytes(off, n uint64) []byte {
	size := b.size()
	if off > size || n > size-off {
		return nil
	}
	if b.whole != nil {
		return b.whole[off : off+n : off+n]
	}
	number, in := off/blockSize, off%blockSize
	if in+n > blockSize {
		return b.read(off, n)
	}
	block := b.kept[number]
	if block == nil {
		block = b.read(number*blockSize, min(blockSize, size-number*blockSize))
		if block == nil {
			return nil
		}
		if b.kept == nil {
			b.kept = make(map[uint64][]byte)
		}
		if len(b.kept) >= maxBlocks {
			clear(b.kept)
		}
		b.kept[number] = block
	}
	return block[in : in+n : in+n]
}

func (b *blocks) read(off, n uint64) []byte {
	p, err := b.data.Bytes(off, n)
	if err != nil {
		return nil
	}
	return p
}
