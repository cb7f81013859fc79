package intake

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// seen is a file as it was when it was looked at last, and since when it has been
// so.
type seen struct {
	is     version
	since  time.Time // by us
	looks  int       // at which it had changed, up to busy
	tried  bool      // it was whole up to where it ended, and had no end
	stays  bool      // it was rejected, and cannot be moved
	delays int       // how often its result could not be written
	again  time.Time // not before, if its result could not be written
}

// version identifies a file, and shows whether it was written meanwhile.
type version struct {
	dev, inode     uint64
	mode           uint32
	links          uint64
	size           int64
	changed, state unix.Timespec // mtime, which its owner can set, and ctime
}

func versionOf(st *unix.Stat_t) version {
	return version{uint64(st.Dev), st.Ino, st.Mode, uint64(st.Nlink), st.Size, st.Mtim, st.Ctim}
}

func (v *version) regular() bool { return v.mode&unix.S_IFMT == unix.S_IFREG }

const (
	// maxWaiting bounds how many reports are waited for at a time. The others
	// are found when there is room.
	maxWaiting = 1 << 14
	// busy is after how many changes a file gives way to others.
	busy = 4
	// batch is how many names are read at a time.
	batch = 1 << 10
)

// removeHalfDone removes the result that an earlier run was writing when it
// ended.
func (d *Directory) removeHalfDone() error {
	_, err := d.out.each(0, func(name string) bool {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, d.Suffix+halfDone) {
			_ = d.out.remove(name) // what stays is replaced
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("looking for results that are half done: %w", err)
	}
	return nil
}

// each calls fn with the names in a directory but the first so many, until it
// returns false, and returns how many there were up to then.
func (h handle) each(from int, fn func(name string) bool) (n int, err error) {
	f, err := h.reopen()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(batch)
		for _, name := range names {
			if n++; n > from && !fn(name) {
				return n, nil
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// reopen opens the directory again, to be read from its beginning.
func (h handle) reopen() (*os.File, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(h.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: h.file.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), h.file.Name()), nil
}

// scan looks at all files in the directory. If there is no room for all, the
// next scan begins where this one ended, so that every report gets its turn.
func (d *Directory) scan() error {
	begun := time.Now()
	d.left = false
	add := func(name string) bool { d.arrived(name); return !d.left }
	n, err := d.inbox.each(d.cursor, add)
	if err == nil && !d.left && d.cursor > 0 {
		n, err = d.inbox.each(0, add)
	}
	if d.cursor = 0; d.left {
		d.cursor = n - 1
	}
	const share = 8 // of the time, at most
	d.next = time.Now().Add(max(d.Settle, share*time.Since(begun)))
	if err != nil {
		return fmt.Errorf("reading the intake directory: %w", err)
	}
	return nil
}

// arrived notes that there is something to look at.
func (d *Directory) arrived(name string) {
	if d.waiting[name] != nil || !wanted(name) || d.out.has(d.resultName(name)) {
		return
	}
	if len(d.waiting) >= d.room {
		d.left = true
		return
	}
	d.waiting[name] = &seen{since: time.Now()}
}

// makeRoom scans again for reports that were left, now and then. Files that
// change all the time, and files that cannot be moved, give way to others.
func (d *Directory) makeRoom(now time.Time) error {
	if !d.left || now.Before(d.next) {
		return nil
	}
	for name, s := range d.waiting {
		if s.stays || s.looks >= busy {
			delete(d.waiting, name)
		}
	}
	if len(d.waiting) > d.room*3/4 {
		return nil
	}
	return d.scan()
}

// step looks at all reports that are waited for.
func (d *Directory) step(ctx context.Context) error {
	if err := d.makeRoom(time.Now()); err != nil {
		return err
	}
	for name, s := range d.waiting {
		if ctx.Err() != nil || d.gone != nil {
			return d.gone
		}
		now := time.Now()
		st, err := d.inbox.stat(name)
		is := versionOf(&st)
		switch {
		case err != nil || !is.regular():
			delete(d.waiting, name) // gone, or no file
		case is != s.is:
			s.change(is, now)
		case s.stays || now.Before(s.again):
		default:
			if quiet := now.Sub(s.since); quiet >= d.Settle && (!s.tried || quiet >= d.GiveUp) {
				d.take(name, s, quiet)
			}
		}
	}
	return d.gone
}

// change notes that a file has changed.
func (s *seen) change(is version, now time.Time) {
	*s = seen{is: is, since: now, looks: min(s.looks+1, busy)}
}

// idle reports whether nothing is waited for.
func (d *Directory) idle() bool {
	if d.left {
		return false
	}
	for _, s := range d.waiting {
		if !s.stays {
			return false
		}
	}
	return true
}
