package openfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
)

// Opener opens files with a time limit, and has them read with one: a file of a file
// system in user space, or of a server, can let its reader wait for ever. Files of
// disks are read as they are. It may be used by several goroutines. The zero value is
// not ready: see NewOpener.
type Opener struct {
	calls *bounded.Calls
	root  int // the root directory, if files there need no time limit; else negative

	mu   sync.Mutex
	slow map[string]time.Time // directories in which a file took too long, and when
}

const (
	// slowAge is how long no file of a directory is opened after one took too long.
	slowAge = time.Minute
	maxSlow = 1 << 10
	// piece is how much is read at once where there is a limit: a server that is
	// only slow has time for that.
	piece = 256 << 10
)

// NewOpener returns an Opener that waits this long for each answer,
// bounded.DefaultWait if 0.
func NewOpener(wait time.Duration) *Opener {
	o := &Opener{calls: bounded.New(wait), root: -1}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return o
	}
	if kind := System(fd); !answers(kind) && kind != unix.OVERLAYFS_SUPER_MAGIC {
		_ = unix.Close(fd) // of a path
		return o
	}
	o.root = fd
	return o
}

// Close ends the use of the Opener. Files that it has opened stay open.
func (o *Opener) Close() {
	if o.root >= 0 {
		_ = unix.Close(o.root) // of a path
	}
	o.root = -1
}

// Named is Named with a time limit.
func (o *Opener) Named(name string) (*File, error) {
	if !below(name) {
		if fd := o.near(name); fd >= 0 {
			return nearby(name, fd)
		}
	}
	return o.open(name, name, func() (*os.File, error) { return Named(name) })
}

// Path is Path with a time limit.
func (o *Opener) Path(name string) (*File, error) {
	if fd := o.near(name); fd >= 0 {
		return nearby(name, fd)
	}
	return o.open(name, name, func() (*os.File, error) { return Path(name) })
}

// In is In with a time limit.
func (o *Opener) In(root *os.Root, name string) (*File, error) {
	return o.open(name, path.Join(root.Name(), name), func() (*os.File, error) { return In(root, name) })
}

// By opens a regular file by a function, with a time limit. name is for messages, and
// what lies in its directory has been slow if this is.
func (o *Opener) By(name string, open func() (*os.File, error)) (*File, error) {
	return o.open(name, name, open)
}

// near returns the descriptor of a path that stays on the file system of the
// root directory, so that going there asks no server; negative if it does not.
func (o *Opener) near(name string) (fd int) {
	rest := strings.TrimLeft(name, "/")
	if o.root < 0 || rest == "" || rest == name {
		return -1
	}
	fd, err := unix.Openat2(o.root, rest, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_IN_ROOT})
	if err != nil {
		return -1
	}
	return fd
}

// nearby opens a file that is near.
func nearby(name string, fd int) (*File, error) {
	r := look(func() (*os.File, error) { return open(name, func() (int, error) { return fd, nil }) })
	if r.err != nil {
		return nil, r.err
	}
	return r.read(), nil
}

// opened is what became of opening a file.
type opened struct {
	file *os.File
	info os.FileInfo
	at   time.Time // a time before
	// prompt: reads of it need no time limit
	prompt bool
	err    error
}

func (r *opened) read() *File { return &File{file: r.file, info: r.info, at: r.at} }

func look(open func() (*os.File, error)) (r opened) {
	r.at = time.Now()
	if r.file, r.err = open(); r.err != nil {
		return r
	}
	info, err := r.file.Stat()
	if err != nil {
		_ = r.file.Close()
		return opened{err: err}
	}
	r.info, r.prompt = info, answers(System(int(r.file.Fd())))
	return r
}

// identity is what the kernel says of an open file.
func identity(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x:%d:%d:%d.%09d", st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
}

func (o *Opener) open(name, full string, open func() (*os.File, error)) (*File, error) {
	dir := path.Dir(full)
	if o.isSlow(dir) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: bounded.ErrRefused}
	}
	r := new(opened) // the call may go on without us
	err := o.calls.Do(func() { *r = look(open) })
	if errors.Is(err, bounded.ErrSlow) {
		o.note(dir)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if r.err != nil {
		return nil, r.err
	}
	f := r.read()
	if !r.prompt {
		f.calls = o.calls
	}
	return f, nil
}

func (o *Opener) isSlow(dir string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	since, slow := o.slow[dir]
	return slow && time.Since(since) < slowAge
}

func (o *Opener) note(dir string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slow == nil || len(o.slow) >= maxSlow {
		o.slow = make(map[string]time.Time)
	}
	o.slow[dir] = time.Now()
}

// File is a file that is read with a time limit, if need be. It may be used by
// several goroutines.
type File struct {
	file  *os.File
	info  os.FileInfo    // when it was opened
	at    time.Time      // a time before that
	calls *bounded.Calls // nil on a disk
	// doubted is set by CheckOwner, see Doubted.
	doubted func() bool

	mu   sync.Mutex
	gone error // why it is not read any more

	served served
}

// Size returns how many bytes the file had when it was opened.
func (f *File) Size() int64 { return f.info.Size() }

// Identity is the file's when it was opened: device, inode, size and time of
// change. While the file is open no other one has it. That of a file that had just been changed
// is its own: another change may have the same time.
func (f *File) Identity() string {
	is := identity(f.info)
	if changed, ok := f.changed(); !ok || !ChangedBefore(changed, f.at) {
		is += fmt.Sprintf("@%d", f.at.UnixNano())
	}
	return is
}

// Info is what the kernel said of the file when it was opened.
func (f *File) Info() os.FileInfo { return f.info }

// ErrWritten is the error of a file that was written since it was opened: what it is read
// for now may be another file than the one that was looked at before.
var ErrWritten = errors.New("the file was written since it was opened")

// ReadAt implements io.ReaderAt. After an answer that did not come in time nothing is
// read any more: bounded.ErrSlow, or bounded.ErrRefused if too many others were slow. What
// is read of a file that was written since it was opened is ErrWritten. What was read of a
// file of a server may be of different ones, see IDBy.
func (f *File) ReadAt(b []byte, off int64) (n int, err error) {
	switch s := &f.served; {
	case !s.has():
		return f.readAll(b, off)
	case len(b) <= keptPiece:
		return f.readServed(b, off)
	default:
		defer s.note(true)
		return f.readAll(b, off)
	}
}

func (f *File) readAll(b []byte, off int64) (n int, err error) {
	if f.calls == nil {
		return f.readAt(b, off)
	}
	for n < len(b) && err == nil {
		var k int
		k, err = f.piece(b[n:min(len(b), n+piece)], off+int64(n))
		n += k
	}
	return n, err
}

func (f *File) piece(b []byte, off int64) (n int, err error) {
	f.mu.Lock()
	err = f.gone
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	// The call may go on without us.
	late := &struct {
		b   []byte
		n   int
		err error
	}{b: make([]byte, len(b))}
	if err := f.calls.Do(func() { late.n, late.err = f.readAt(late.b, off) }); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.gone = &fs.PathError{Op: "read", Path: f.file.Name(), Err: err}
		return 0, f.gone
	}
	return copy(b, late.b[:late.n]), late.err
}

// readAt reads, and looks at the file after that: the kernel sets the time of a change before
// it makes it (file_update_time in fs/inode.c). Not seen are a call of write(2) that was under
// way when the file was opened, and one in the same tick before, where the times of files
// advance in ticks (before Linux 6.13).
func (f *File) readAt(b []byte, off int64) (n int, err error) {
	if n, err = f.file.ReadAt(b, off); n > 0 && f.written() {
		return 0, &fs.PathError{Op: "read", Path: f.file.Name(), Err: ErrWritten}
	}
	return n, err
}

// written reports whether the file has another size or time than when it was opened. New names
// and permissions change neither.
func (f *File) written() bool {
	was, ok := f.info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	is, ok := f.stat()
	return !ok || is.Size != was.Size || is.Mtim != unix.Timespec(was.Mtim)
}

// stat returns what the kernel says of the file now.
func (f *File) stat() (is unix.Stat_t, ok bool) {
	c, err := f.file.SyscallConn()
	if err != nil {
		return is, false
	}
	gone := c.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &is) })
	return is, gone == nil && err == nil
}

// Written reports whether the file was written since it was opened, as far as its server says.
func (f *File) Written() bool { return f.asked(f.written) }

// asked returns what a look at the file shows, false if its server gives no answer.
func (f *File) asked(look func() bool) bool {
	if f.calls == nil {
		return look()
	}
	f.mu.Lock()
	gone := f.gone != nil
	f.mu.Unlock()
	if gone {
		return false // it was read before that
	}
	shown := new(bool) // the call may go on without us
	return f.calls.Do(func() { *shown = look() }) == nil && *shown
}

// Close closes the file. It does not wait for the server of the file to answer.
func (f *File) Close() error {
	f.served.mu.Lock()
	d := f.served.direct
	f.served.mu.Unlock()
	if f.calls == nil {
		d.close()
		return f.file.Close()
	}
	go func() {
		d.close()
		_ = f.file.Close() // was only read
	}()
	return nil
}
