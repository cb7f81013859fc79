package intake

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Reasons to reject a report, besides the errors of Do.
var (
	// errEmpty: a file without a byte.
	errEmpty = fmt.Errorf("the file is empty: %w", io.ErrUnexpectedEOF)
	// errLinked: the file has other names. It may be any file of the machine, linked
	// by a user who may not read it. It is good once that name is removed, so it is
	// waited for like a missing end.
	errLinked error = linkedError{}
	// ErrTooLarge: it is larger than MaxSize.
	ErrTooLarge = errors.New("the file is too large")
)

type linkedError struct{}

func (linkedError) Error() string        { return "the file has hard links, and is not read: deliver a copy" }
func (linkedError) Is(target error) bool { return target == io.ErrUnexpectedEOF }

// errChanged: the file was written, or replaced, meanwhile.
var errChanged = errors.New("the file has changed")

// resultError is an error of the results' directory. It is no fault of the
// report, and others would fail with it, too.
type resultError struct{ error }

// Unwrap returns the error.
func (e *resultError) Unwrap() error { return e.error }

// Later returns an error of Do that is no fault of the report: it is tried again later.
func Later(err error) error { return &resultError{err} }

// take processes a report, or rejects it.
func (d *Directory) take(name string, s *seen, quiet time.Duration) {
	err := d.do(name, &s.is)
	write := new(resultError)
	switch {
	case errors.Is(err, errChanged), errors.Is(err, unix.EAGAIN):
		s.since = time.Now()
	case errors.Is(err, unix.ENOENT) && !d.inbox.has(name):
		delete(d.waiting, name) // gone
	case errors.As(err, &write):
		d.delay(name, s, err)
	case errors.Is(err, io.ErrUnexpectedEOF) && quiet < d.GiveUp:
		s.tried = true // its end may come
	case err != nil:
		d.refuse(name, s, err)
	default:
		delete(d.waiting, name)
		d.Log(name, Done, nil)
	}
}

// maxDelay bounds how long a report waits for another try, as a multiple of
// GiveUp.
const maxDelay = 64

// delay has a report tried again later: the disk is full, say.
func (d *Directory) delay(name string, s *seen, err error) {
	var st unix.Stat_t
	if unix.Fstat(d.out.fd(), &st) != nil || st.Nlink == 0 {
		d.gone = fmt.Errorf("%w: the directory is gone", err)
		return
	}
	s.again = time.Now().Add(d.GiveUp * time.Duration(min(1<<min(s.delays, 10), maxDelay)))
	s.delays++
	if d.once {
		delete(d.waiting, name)
		d.failed = errors.Join(d.failed, err)
		return
	}
	d.Log(name, Delayed, err)
}

// do writes the result of a report.
func (d *Directory) do(name string, is *version) error {
	in, err := d.openReport(name, is)
	if err != nil {
		return err
	}
	defer in.Close()
	half := d.halfName(name)
	file, err := d.copyOf(in, half, is)
	if err != nil {
		return err
	}
	defer file.Close()
	out, err := d.createHalf(half)
	if err != nil {
		return err
	}
	w := &keepError{w: out}
	bad := d.Do(Report{Name: name, Path: d.inbox.path(name), Copy: "/proc/self/fd/" + strconv.Itoa(int(file.Fd()))}, w)
	err = errors.Join(w.err, out.Sync(), out.Close())
	if err == nil && bad == nil {
		err = unix.Renameat(d.out.fd(), half, d.out.fd(), d.resultName(name))
	}
	if err != nil || bad != nil {
		_ = d.out.remove(half) // the next run removes it
	}
	if err != nil {
		return &resultError{fmt.Errorf("writing the result of %q: %w", name, err)}
	}
	return bad
}

// openReport opens a file if it is the one that was looked at, and one that may
// be processed.
func (d *Directory) openReport(name string, is *version) (*os.File, error) {
	switch {
	case is.links != 1:
		return nil, errLinked
	case is.size == 0:
		return nil, errEmpty
	case d.MaxSize > 0 && is.size > d.MaxSize:
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, is.size, d.MaxSize)
	}
	// Without O_NONBLOCK a lease on the file makes us wait (man 2 fcntl).
	in, err := d.inbox.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err == nil {
		if err = unchanged(in, is); err != nil {
			_ = in.Close() // it was read only
		}
	}
	return in, err
}

// unchanged checks that an open file is as it was.
func unchanged(f *os.File, was *version) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if versionOf(&st) != *was {
		return errChanged
	}
	return nil
}

// createHalf creates a file of ours among the results; an old one is removed.
func (d *Directory) createHalf(name string) (*os.File, error) {
	f, err := d.out.create(name)
	if errors.Is(err, unix.EEXIST) && d.out.remove(name) == nil {
		f, err = d.out.create(name)
	}
	if err != nil {
		return nil, &resultError{fmt.Errorf("creating a result: %w", err)}
	}
	return f, nil
}

// copyOf copies a report into a file without a name: the checked bytes are the
// ones that are processed, and they have an end, whatever is written to the
// report.
func (d *Directory) copyOf(in *os.File, name string, is *version) (*os.File, error) {
	file, err := d.createHalf(name)
	if err != nil {
		return nil, err
	}
	err = d.out.remove(name)
	if err == nil {
		err = file.Truncate(is.size)
	}
	if err != nil {
		err = &resultError{fmt.Errorf("creating a copy: %w", err)}
	} else if err = copyData(in, file, is.size); err == nil {
		err = unchanged(in, is)
	}
	if err != nil {
		_ = file.Close() // it has no name
		return nil, err
	}
	return file, nil
}

// copyData copies the data of a file without its holes: a small file can have
// endless ones.
func copyData(in, to *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil // a hole up to the end
		}
		hole := size
		if err == nil {
			hole, err = unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		}
		if err != nil { // a file system that knows no holes
			data, hole = at, size
		}
		if hole < data || hole == at { // both are of one moment
			return errChanged
		}
		if at = min(hole, size); data >= at {
			continue
		}
		if err := copyRange(in, to, data, at-data); err != nil {
			return err
		}
	}
	return nil
}

func copyRange(in, to *os.File, at, n int64) error {
	for _, f := range []*os.File{in, to} {
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return fmt.Errorf("copying the report: %w", err)
		}
	}
	w := &keepError{w: to}
	done, err := io.Copy(w, io.LimitReader(in, n))
	switch {
	case w.err != nil:
		return &resultError{fmt.Errorf("copying the report: %w", w.err)}
	case err != nil:
		return fmt.Errorf("copying the report: %w", err)
	case done < n:
		return errChanged
	}
	return nil
}

// keepError remembers that the result could not be written, which is no fault
// of the report.
type keepError struct {
	w   io.Writer
	err error
}

func (k *keepError) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	if k.err == nil {
		k.err = err
	}
	return n, err
}
