package anoncode

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"ustack/filemap/openfile"
)

// mapFile is a perf map in a file, as far as it was read.
type mapFile struct {
	info  fs.FileInfo // when it was read; nil before the first time
	read  int64       // bytes, up to the end of a line
	tail  []byte      // the last of them
	sum   uint32      // of all of them
	perf  *perfMap
	wrong error // why the file cannot be used, nil if it can
	gone  bool  // it was read before, and is not there any more
}

// maxTail bounds the end that is kept, to see that a file has only grown. Of a file of which
// no more than maxSummed was read, all of that is compared: a program may have rewritten its map
// with the same end.
const (
	maxTail   = 256
	maxSummed = 1 << 20
)

// sums makes the sums of mapFile, fast on most processors.
var sums = crc32.MakeTable(crc32.Castagnoli)

var (
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("too large")
	errReplaced   = errors.New("another file has taken its place")
)

// update reads the lines that a file has got since it was read last. may checks
// the file before anything of it is used. The error says why a file is not used.
func (m *mapFile) update(root *os.Root, name string, may func(fs.FileInfo) error) error {
	info, err := root.Lstat(name)
	m.gone = errors.Is(err, fs.ErrNotExist) && m.perf != nil
	switch {
	case m.gone:
		return nil // the program has removed it; what it said is true
	case err != nil:
	case !info.Mode().IsRegular():
		err = errNotRegular
	case info.Size() > maxMapSize:
		err = fmt.Errorf("%d bytes: %w", info.Size(), errTooLarge)
	default:
		err = may(info)
	}
	if err == nil && m.unchanged(info) {
		return m.wrong
	}
	if err == nil {
		err = m.open(root, name, info)
	}
	if m.wrong = err; err != nil {
		*m = mapFile{info: info, wrong: err}
	}
	return err
}

func (m *mapFile) unchanged(info fs.FileInfo) bool {
	return m.info != nil && os.SameFile(m.info, info) && m.info.Size() == info.Size() && m.info.ModTime().Equal(info.ModTime())
}

// open opens the checked file and no other, and reads it.
func (m *mapFile) open(root *os.Root, name string, info fs.FileInfo) error {
	f, err := openIn(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, now) {
		return errReplaced
	}
	if m.perf == nil || m.info == nil || !os.SameFile(m.info, info) || !m.grown(f) {
		*m = mapFile{perf: &perfMap{rewritten: m.perf != nil}}
	}
	m.info = info
	return m.take(f)
}

// openIn opens a regular file in a directory. Its path alone is opened first: os.Root
// would have the kernel poll it (see openfile.AsFile).
func openIn(root *os.Root, name string) (*os.File, error) {
	at, err := root.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	if err := openfile.Check(int(at.Fd())); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(at.Fd())), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return openfile.AsFile(fd, name)
}

// grown reports whether the part that was read is still the beginning of the file,
// as far as that part shows, or its end if it is large.
func (m *mapFile) grown(f *os.File) bool {
	if m.read <= maxSummed {
		sum := crc32.New(sums)
		n, err := io.Copy(sum, io.NewSectionReader(f, 0, m.read))
		return err == nil && n == m.read && sum.Sum32() == m.sum
	}
	b := make([]byte, len(m.tail))
	_, err := f.ReadAt(b, m.read-int64(len(b)))
	return err == nil && bytes.Equal(b, m.tail)
}

// take reads the lines after the ones that were read.
func (m *mapFile) take(f *os.File) error {
	text, err := io.ReadAll(io.NewSectionReader(f, m.read, maxMapSize-m.read+1))
	if err != nil {
		return err
	}
	if m.read+int64(len(text)) > maxMapSize {
		return errTooLarge
	}
	n, ok := m.perf.add(text)
	if !ok {
		return fmt.Errorf("more than %d functions: %w", maxEntries, errTooLarge)
	}
	m.read += int64(n)
	if n > 0 {
		m.sum = crc32.Update(m.sum, sums, text[:n])
		m.tail = bytes.Clone(text[max(0, n-maxTail):n])
	}
	return nil
}
