package unwind

const (
	pageSize = 4 << 10
	maxPages = 128 // of all files
)

// page is a piece of a file.
type page struct {
	file   *File
	number uint64
	code   []byte
}

// code is up to n bytes of the file from an offset on: less at its end. n is at
// most pageSize; the bytes are valid until the next call.
func (f *File) code(offset, n uint64) []byte {
	b := f.page(offset / pageSize)
	in := offset % pageSize
	if in >= uint64(len(b)) {
		return nil
	}
	b = b[in:]
	if uint64(len(b)) >= n {
		return b[:n]
	}
	f.u.across = append(f.u.across[:0], b...)
	b = f.page(offset/pageSize + 1)
	return append(f.u.across, b[:min(uint64(len(b)), n-uint64(len(f.u.across)))]...)
}

// page returns a page of the file, shorter at its end.
func (f *File) page(number uint64) []byte {
	const spread = 0x9e3779b97f4a7c15
	p := &f.u.pages[(number*spread>>32+f.number*spread>>40)%maxPages]
	if p.file == f && p.number == number {
		return p.code
	}
	size := uint64(f.image.Size())
	if number > size/pageSize {
		return nil
	}
	off := number * pageSize
	if cap(p.code) == 0 {
		p.code = make([]byte, pageSize)
	}
	b := p.code[:min(pageSize, size-off)]
	if n, err := f.bin.ReadAt(b, int64(off)); n < len(b) && err != nil {
		p.file = nil
		return nil
	}
	p.file, p.number, p.code = f, number, b
	return b
}
