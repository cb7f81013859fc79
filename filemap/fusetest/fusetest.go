// Package fusetest has a file system in user space (include/uapi/linux/fuse.h)
// for tests of readers of its file when it does not answer.
//
// The server is in the process of the test. Tests reach its file by system calls only: a
// page fault on a mapping of the file can keep the runtime from running the server, and the
// process then waits for itself without an end.
package fusetest

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Server is a file system in user space with one file, Name, in its directory.
type Server struct {
	// Path is the path of the file, Dir the path of its directory.
	Path, Dir string

	dev    int
	file   []byte
	kept   atomic.Bool            // the kernel keeps pages of the file
	cached atomic.Bool            // it reads no others
	later  atomic.Pointer[[]byte] // the file by now
	flush  bool                   // it wants to know when a file is closed
	silent atomic.Bool
	asked  atomic.Int32 // since it fell silent
	polled atomic.Int32
}

// Name is the name of the file.
const Name = "lib.so"

// Start mounts a file system with a file, until the test has ended. It skips the
// test where that cannot be.
func Start(t testing.TB, file []byte) *Server {
	t.Helper()
	return start(t, &Server{file: file})
}

// StartKept is Start for a file of which the kernel keeps the pages that it has read.
func StartKept(t testing.TB, file []byte) *Server {
	t.Helper()
	s := Start(t, file)
	s.kept.Store(true)
	return s
}

func start(t testing.TB, s *Server) *Server {
	t.Helper()
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no /dev/fuse for us: %v", err)
	}
	dir := t.TempDir()
	s.Path, s.Dir, s.dev = dir+"/"+Name, dir, dev
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", dev, os.Getuid(), os.Getgid())
	if err := unix.Mount("test", dir, "fuse.test", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		_ = unix.Close(dev)
		t.Skipf("no right to mount a file system: %v", err)
	}
	go s.serve()
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH) // ends all that waits
		_ = unix.Close(dev)
	})
	return s
}

// Exchange makes the server have another file of the same size there, without any sign of it.
func (s *Server) Exchange(file []byte) { s.later.Store(&file) }

// OnlyKept makes the server refuse to be read past the pages that the kernel keeps.
func (s *Server) OnlyKept() { s.cached.Store(true) }

// Silence makes the server take requests, and answer none.
func (s *Server) Silence() { s.silent.Store(true) }

// Asked returns the number of requests that got no answer.
func (s *Server) Asked() int { return int(s.asked.Load()) }

// Polled returns the number of requests to poll the file.
func (s *Server) Polled() int { return int(s.polled.Load()) }

// request is struct fuse_in_header.
type request struct {
	length, opcode uint32
	unique, node   uint64
	uid, gid, pid  uint32
	_              uint32
}

func (s *Server) serve() {
	buf := make([]byte, 1<<17+4096)
	for {
		n, err := unix.Read(s.dev, buf)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || n < int(unsafe.Sizeof(request{})) {
			return // unmounted, or closed
		}
		r := (*request)(unsafe.Pointer(unsafe.SliceData(buf)))
		body := buf[unsafe.Sizeof(*r):n]
		const poll = 40
		if r.opcode == poll {
			s.polled.Add(1)
		}
		if s.silent.Load() {
			s.asked.Add(1)
			continue
		}
		if answer, errno, ok := s.answer(r, body); ok {
			head := binary.NativeEndian.AppendUint32(nil, uint32(16+len(answer)))
			head = binary.NativeEndian.AppendUint32(head, uint32(-int32(errno)))
			head = binary.NativeEndian.AppendUint64(head, r.unique)
			_, _ = unix.Write(s.dev, append(head, answer...))
		}
	}
}

// answer answers a request. ok is false for those that want no answer.
func (s *Server) answer(r *request, body []byte) (b []byte, errno unix.Errno, ok bool) {
	const (
		lookup, forget, getattr, open, read = 1, 2, 3, 14, 15
		initialize, interrupt, batchForget  = 26, 36, 42
		statfs, flush                       = 17, 25
	)
	switch r.opcode {
	case forget, interrupt, batchForget:
		return nil, 0, false
	case initialize:
		b = binary.NativeEndian.AppendUint32(b, 7)
		b = binary.NativeEndian.AppendUint32(b, 31)
		return append(b, make([]byte, 56)...), 0, true
	case lookup:
		if string(body) != Name+"\x00" {
			return nil, unix.ENOENT, true
		}
		b = binary.NativeEndian.AppendUint64(b, 2)
		return s.attributes(append(b, make([]byte, 32)...), 2), 0, true // valid for no time
	case getattr:
		return s.attributes(make([]byte, 16), r.node), 0, true
	case flush:
		if s.flush {
			return nil, 0, true
		}
	case statfs:
		if s.kept.Load() { // else it does not say what it is
			b = make([]byte, 80)
			binary.NativeEndian.PutUint32(b[44:], unix.NAME_MAX)
			return b, 0, true
		}
	case open:
		if s.cached.Load() && binary.NativeEndian.Uint32(body)&unix.O_DIRECT != 0 {
			return nil, unix.EINVAL, true
		}
		const keepCache = 1 << 1
		b = make([]byte, 16)
		if s.kept.Load() {
			binary.NativeEndian.PutUint32(b[8:], keepCache)
		}
		return b, 0, true
	case read:
		file := s.file
		if later := s.later.Load(); later != nil {
			file = *later
		}
		off, size := binary.NativeEndian.Uint64(body[8:]), binary.NativeEndian.Uint32(body[16:])
		from := min(off, uint64(len(file)))
		return file[from:min(from+uint64(size), uint64(len(file)))], 0, true
	}
	return nil, unix.ENOSYS, true
}

// attributes appends struct fuse_attr: node 1 is the directory.
func (s *Server) attributes(b []byte, node uint64) []byte {
	size, mode := uint64(len(s.file)), uint32(unix.S_IFREG|0o755)
	if node == 1 {
		size, mode = 0, unix.S_IFDIR|0o755
	}
	b = binary.NativeEndian.AppendUint64(b, node)
	b = binary.NativeEndian.AppendUint64(b, size)
	b = append(b, make([]byte, 44)...) // blocks and times
	b = binary.NativeEndian.AppendUint32(b, mode)
	b = binary.NativeEndian.AppendUint32(b, 1)
	return append(b, make([]byte, 20)...)
}
