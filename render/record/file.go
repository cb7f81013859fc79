package record

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

// ErrFull: the text does not fit below the largest size any more. None of it is
// in the file.
var ErrFull = errors.New("the report has its largest size")

// File is a report being written: compressed, and never larger than allowed. Up
// to the last Sync it can be read whatever happens next.
type File struct {
	target
	out counter
	z   *zstd.Encoder
	max int64
	// pending is how much text has been written since the last Sync: it may
	// take that much room at most.
	pending int64
}

const (
	// window is how far back the compression looks. All readers of zstd have
	// room for it.
	window = 4 << 20
	// overhead bounds what a Sync writes beyond the text that it holds: heads of
	// blocks of 128 KiB, and of the frame.
	overhead = 64
	// tail is kept free for the end of a report.
	tail = 1 << 10
)

// smallestSize is the least that a report can be limited to.
const smallestSize = 4 << 10

// Create begins a report. The file is private; until Finish it is called
// NAME.partial, unless NAME is a pipe, a character device or one of our own
// descriptors (see outfile.Special). max bounds its size, 0 for no bound.
func Create(name string, max int64) (*File, error) {
	if err := checkSize(max); err != nil {
		return nil, err
	}
	t, err := createTarget(name)
	if err != nil {
		return nil, err
	}
	return begin(t, max)
}

// CreateNext begins a report as Create does, and leaves all files that are there: it is called
// NAME.N, or NAME for 0, N the first from a number on that comes after those of all reports,
// complete or not. It returns the number.
func CreateNext(name string, number int, max int64) (*File, int, error) {
	if err := checkSize(max); err != nil {
		return nil, 0, err
	}
	t, number, err := createNext(name, number)
	if err != nil {
		return nil, 0, err
	}
	f, err := begin(t, max)
	return f, number, err
}

// checkSize returns an error for a bound that no report can keep.
func checkSize(max int64) error {
	if max > 0 && max < smallestSize {
		return fmt.Errorf("writing a report of at most %d bytes: %d is the least", max, smallestSize)
	}
	return nil
}

// begin begins to write.
func begin(t target, max int64) (_ *File, err error) {
	f := &File{target: t, max: max}
	f.out.w = out{&f.target}
	f.z, err = zstd.NewWriter(&f.out, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(window), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating a report: %w", err), f.Abandon())
	}
	return f, nil
}

// Size returns the size of the file so far.
func (f *File) Size() int64 { return f.out.n }

// Room returns how much there is to the largest size.
func (f *File) Room() int64 {
	if f.max == 0 {
		return math.MaxInt64
	}
	return max(0, f.max-tail-f.out.n-f.pending)
}

// Write adds text, all of it or, with ErrFull, nothing.
func (f *File) Write(p []byte) (int, error) {
	if !f.fits(len(p)) {
		if err := f.flush(); err != nil {
			return 0, err
		}
		if !f.fits(len(p)) {
			return 0, ErrFull
		}
	}
	return f.write(p)
}

func (f *File) write(p []byte) (int, error) {
	n, err := f.z.Write(p)
	f.pending += int64(n)
	if err != nil {
		err = fmt.Errorf("writing the report: %w", err)
	}
	return n, err
}

// fits reports whether there is room for n more bytes, however badly they and
// the pending text compress.
func (f *File) fits(n int) bool {
	return f.max == 0 || f.out.n+f.pending+int64(n)+2*overhead+tail <= f.max
}

// flush writes all text out.
func (f *File) flush() error {
	if err := f.z.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	f.pending = 0
	return nil
}

// Sync writes all text out, onto the disk.
func (f *File) Sync() error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.target.Sync()
}

// Finish writes the last text, for which there is always room if it is no longer
// than tail, and gives the file its name.
func (f *File) Finish(last []byte) error {
	if len(last) > tail/2 {
		return fmt.Errorf("writing the report: %d bytes at its end", len(last))
	}
	_, err := f.write(last)
	if err == nil {
		err = f.z.Close()
	}
	return f.finish(err)
}

// Abandon closes the file without an end. The part that was written can be
// read.
func (f *File) Abandon() error {
	var err error
	if f.z != nil {
		err = f.flush()
	}
	return errors.Join(err, f.f.Close())
}

// counter counts the bytes written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
