package symbolize

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"ustack/filemap/openfile"
)

// moved is the result of a file with debug information that has the right build ID, or
// checksum, but has its code at other addresses: tools that move code, such as prelink,
// leave both as they are.
const moved = "another layout: its code is at other addresses"

// Bounds on reading for checksums: of a file, and in all. A file with holes can have
// any length.
const (
	maxSummed    = 4 << 30
	maxSummedAll = 8 << 30
)

// linked checks that a file has the CRC-32 that .gnu_debuglink has.
func (f *finder) linked(file *openfile.File, crc uint32) error {
	size := file.Size()
	if size > maxSummed || size > maxSummedAll-f.summed {
		return fmt.Errorf("%d bytes, which are too many for a checksum: %d of a file are read, %d in all", size, int64(maxSummed), int64(maxSummedAll))
	}
	f.summed += size
	h := crc32.NewIEEE()
	if _, err := io.Copy(h, io.NewSectionReader(file, 0, size)); err != nil {
		return err
	}
	if h.Sum32() != crc {
		return errors.New("another file: its checksum is not that of .gnu_debuglink")
	}
	return nil
}
