package budget

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// chunk is how many bytes are reserved at a time: what a crash can lose at most, and how much is
// written between two writes of the state.
const chunk = 1 << 20

// Book is the state of a recorder. It is for one goroutine at a time.
type Book struct {
	limits Limits
	now    func() (Now, error)
	file   *os.File
	state  state
}

// Open opens the state file, creates it if need be, and counts what a recorder that was killed
// has written. No other process can open it until Close. With damaged contents, this day counts
// as used, which is reported by a warning that is not "".
func Open(path string, limits Limits, now func() (Now, error)) (b *Book, warning string, err error) {
	b = &Book{limits: limits, now: now}
	if b.file, err = openFile(path); err != nil {
		return nil, "", err
	}
	b.state, err = read(b.file)
	if errors.Is(err, errDamaged) {
		warning = fmt.Sprintf("the state file %s is damaged: the budget of a day from now on counts as used", path)
		b.state, err = state{Bytes: limits.Bytes, Reports: limits.Reports}, nil
	}
	if err == nil {
		err = b.settle()
	}
	if err == nil {
		err = syncName(path)
	}
	if err != nil {
		return nil, "", errors.Join(err, b.file.Close())
	}
	return b, warning, nil
}

// advance begins another day if it is time.
func (b *Book) advance() error {
	now, err := b.now()
	if err == nil && b.state.advance(now) {
		b.state.Bytes, b.state.Reports, b.state.Causes = 0, 0, nil
	}
	return err
}

// settle counts what a report that has not ended has written.
func (b *Book) settle() error {
	if err := b.advance(); err != nil {
		return err
	}
	if p := b.state.Pending; p != nil {
		if size, complete, ok := p.size(); ok {
			b.end(size, complete)
		}
		b.state.Pending = nil
	}
	return b.state.write(b.file)
}

// size returns the size of the file of a report, if it is still there. It is complete if it has
// its name.
func (p *pending) size() (size int64, complete, ok bool) {
	for _, name := range []string{p.Partial, p.Name} {
		if name == "" {
			continue
		}
		if id, size, ok := identify(unix.AT_FDCWD, name); ok && id == p.ID && size <= p.Reserved {
			return size, name == p.Name, true
		}
	}
	return 0, false, false
}

// end gives back what a report has reserved and not used. Nothing was written of one without a
// byte. What was reserved on another day was used up there.
func (b *Book) end(size int64, complete bool) {
	p := b.state.Pending
	if b.state.Number == p.Day {
		b.state.Bytes = max(0, b.state.Bytes-(p.Reserved-size))
	}
	if size > 0 {
		if complete && b.state.Number == p.Day {
			b.state.remember(p.Cause)
		}
		return
	}
	b.state.Counts.add(p.Counts)
	if b.state.Number == p.Day {
		b.state.Reports = max(0, b.state.Reports-1)
	}
}

// Left returns what is left of this day.
func (b *Book) Left() (l Left, err error) {
	if err := b.advance(); err != nil {
		return l, err
	}
	return Left{left(b.limits.Bytes, b.state.Bytes), left(b.limits.Reports, b.state.Reports), dayLength - b.state.Age}, nil
}

// Refuse counts a report for which there is no budget, on the disk.
func (b *Book) Refuse() error {
	b.state.Refused++
	return b.state.write(b.file)
}

// Duplicate counts a report with the same cause as another one of this day, on the disk.
func (b *Book) Duplicate() error {
	b.state.Duplicates++
	return b.state.write(b.file)
}

// Causes returns the causes of the reports of this day, the oldest first. They are not to be
// changed.
func (b *Book) Causes() ([]string, error) {
	err := b.advance()
	return b.state.Causes, err
}

// Counts returns what the next report has in its head.
func (b *Book) Counts() Counts { return b.state.Counts }

// Close writes what was counted, and lets others open the file.
func (b *Book) Close() error { return errors.Join(b.state.write(b.file), b.file.Close()) }

// Report is a report that is being written, on account of a Book. One is written at a time.
type Report struct {
	b       *Book
	written int64
}

// Begin counts a report. Its file is open, and empty; name is the one that it will have, and cause
// what Causes returns once it is complete, "" for nothing. The error is ErrSpent if the day has
// none left.
func (b *Book) Begin(f *os.File, name, cause string) (*Report, error) {
	if err := b.advance(); err != nil {
		return nil, err
	}
	if left(b.limits.Reports, b.state.Reports) == 0 || left(b.limits.Bytes, b.state.Bytes) == 0 {
		return nil, ErrSpent
	}
	p := &pending{Counts: b.state.Counts, Cause: cause}
	if len(cause) > mostCause {
		p.Cause = ""
	}
	if id, _, ok := identify(int(f.Fd()), ""); ok {
		p.ID, p.Partial, p.Name = id, absolute(f.Name()), absolute(name)
	}
	b.state.Pending, b.state.Counts = p, Counts{}
	b.state.Reports++
	r := &Report{b: b}
	return r, r.reserve(1)
}

// absolute returns the path of a file, "" if it is too long to be kept.
func absolute(name string) string {
	path, err := filepath.Abs(name)
	if err != nil || len(strconv.Quote(path)) > mostText {
		return ""
	}
	return path
}

// reserve reserves at least n bytes.
func (r *Report) reserve(n int64) error {
	s := &r.b.state
	free := left(r.b.limits.Bytes, s.Bytes)
	if free < n {
		return ErrSpent
	}
	n = min(max(n, chunk), free)
	s.Bytes += n
	s.Pending.Reserved += n
	s.Pending.Day = s.Number
	return s.write(r.b.file)
}

// Take is called before n bytes are written. The error is ErrSpent if there is no budget for
// them: none of them may be written then.
func (r *Report) Take(n int) error {
	need := r.written + int64(n) - r.b.state.Pending.Reserved
	if need > 0 {
		if err := r.b.advance(); err != nil {
			return err
		}
		if err := r.reserve(need); err != nil {
			return err
		}
	}
	r.written += int64(n)
	return nil
}

// End gives back what was reserved and not written.
func (r *Report) End() error {
	if err := r.b.advance(); err != nil {
		return err
	}
	_, complete, ok := r.b.state.Pending.size()
	r.b.end(r.written, complete || !ok)
	r.b.state.Pending = nil
	return r.b.state.write(r.b.file)
}
