package openfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"ustack/filemap/elfid"
)

// ErrServed: the server of a file has another one there than the one of which the kernel has kept
// pages, or it cannot be asked past them.
var ErrServed = errors.New("its server has another file there by now, or cannot be asked")

// served is what is known of a file that this kernel may not be the only one to change.
type served struct {
	mu     sync.Mutex
	looked bool
	direct *direct // the file at its server, nil if there is no such
	err    error   // why there is none
	pieces pieces
	unseen bool // something was read since the ID was looked at last
}

// ID reads the build ID of the file, see IDBy.
func (f *File) ID() (elfid.ID, error) { return f.IDBy(elfid.Read) }

// IDBy reads the build ID of the file by a function. Pages of a file of a server that a process has
// mapped stay in memory. Others come from the server, which may have another file there by then, and
// say so only later: so the ID is read at the server, too, and has to be the same, else it is
// ErrServed. All that was read before is of the file with this ID.
func (f *File) IDBy(read func(io.ReaderAt) (elfid.ID, error)) (elfid.ID, error) {
	id, err := read(f)
	if err != nil {
		return id, err
	}
	at, err := f.atServer()
	if err != nil {
		return id, f.isServed(err)
	}
	if at == nil {
		return id, nil
	}
	f.served.note(false)
	now, err := read(&recent{from: at})
	if err == nil && now == id {
		return id, nil
	}
	f.served.note(true)
	if err == nil {
		err = fmt.Errorf("build ID %q, not %q", now.Hex(), id.Hex())
	}
	return id, f.isServed(err)
}

func (f *File) isServed(err error) error {
	return &fs.PathError{Op: "read", Path: f.file.Name(), Err: fmt.Errorf("%w: %w", ErrServed, err)}
}

// Unseen reports whether something was read of a file of a server since its ID was.
func (f *File) Unseen() bool {
	at, err := f.atServer()
	if err != nil || at == nil {
		return err != nil
	}
	f.served.mu.Lock()
	defer f.served.mu.Unlock()
	return f.served.unseen
}

// Check returns ErrServed unless all that was read of the file is of the same one, as far as its
// build ID shows that.
func (f *File) Check() error {
	if !f.Unseen() {
		return nil
	}
	if _, err := f.ID(); errors.Is(err, ErrServed) {
		return err
	}
	return nil
}

// Memory returns how much may be kept of a file of a server.
func (f *File) Memory() int {
	if f.served.has() {
		return maxKept
	}
	return 0
}

// has reports whether the file is known to be one of a server that can be asked for it.
func (s *served) has() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.direct != nil
}

// note notes whether something was read since the ID was.
func (s *served) note(unseen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen = unseen
}

// atServer returns the file as its server has it now, nil for a file that only this kernel changes.
func (f *File) atServer() (*direct, error) {
	f.served.mu.Lock()
	known, at, err := f.served.looked, f.served.direct, f.served.err
	f.served.mu.Unlock()
	if known {
		return at, err
	}
	found := new(served) // the call may go on without us
	if err := f.do(func() { found.direct, found.err = f.openDirect() }); err != nil {
		return nil, err
	}
	f.served.mu.Lock()
	defer f.served.mu.Unlock()
	if f.served.looked { // others were faster
		found.direct.close()
		return f.served.direct, f.served.err
	}
	f.served.looked, f.served.direct, f.served.err = true, found.direct, found.err
	f.served.unseen = true
	return found.direct, found.err
}

// do makes a call, with a time limit if reads have one.
func (f *File) do(call func()) error {
	if f.calls != nil {
		return f.calls.Do(call)
	}
	call()
	return nil
}

// pieces are parts of a file of a server that were read once, and stay as they were.
type pieces struct {
	at    map[int64][]byte
	bytes int
}

const (
	keptPiece = 16 << 10
	maxKept   = 512 << 10
)

// readServed reads a little of a file of a server.
func (f *File) readServed(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		from := (off + int64(n)) &^ (keptPiece - 1)
		p, err := f.keptPiece(from)
		into := int(off + int64(n) - from)
		if into >= len(p) {
			if err == nil {
				err = io.EOF
			}
			return n, err
		}
		n += copy(b[n:], p[into:])
		if err != nil && n < len(b) {
			return n, err
		}
	}
	return n, nil
}

// keptPiece returns the piece of the file at a place. It is shorter only at the end of the file, or
// with an error.
func (f *File) keptPiece(at int64) ([]byte, error) {
	s := &f.served
	s.mu.Lock()
	p := s.pieces.at[at]
	s.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p = make([]byte, keptPiece)
	n, err := f.readAll(p, at)
	if p = p[:n]; err == io.EOF {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen = true
	if err == nil && n > 0 && s.pieces.bytes+cap(p) <= maxKept && s.pieces.at[at] == nil {
		if s.pieces.at == nil {
			s.pieces.at = make(map[int64][]byte)
		}
		s.pieces.at[at] = p
		s.pieces.bytes += cap(p)
	}
	return p, err
}
