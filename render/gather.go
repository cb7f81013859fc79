package render

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gather is an output buffer that need not copy. Most of what is written is
// text of the input and stacks that were rendered before; a file gets them
// from where they are, by writev(2).
type gather struct {
	// buf is the text that the renderer makes, which it appends itself.
	buf []byte

	w       io.Writer
	file    syscall.RawConn // of w, nil if w is no file
	pieces  []unix.Iovec
	from    int // where in buf the text after the last piece begins
	size    int // of the pieces
	flushes int64
	step    func(fd uintptr) bool // g.write, made once
	err     error                 // of step
}

// maxPieces is how many pieces one writev takes (UIO_MAXIOV in
// include/uapi/linux/uio.h).
const maxPieces = 1024

// spillAt bounds the pending output: a few bytes of input can make a lot.
const spillAt = 1 << 20

// copyBelow is the length of texts that are copied: a piece costs as much.
const copyBelow = 64

func newGather(w io.Writer) *gather {
	g := &gather{w: w}
	if f, ok := w.(*os.File); ok {
		if file, err := f.SyscallConn(); err == nil {
			g.file, g.step = file, g.write
			g.pieces = make([]unix.Iovec, 0, maxPieces)
		}
	}
	return g
}

// refer writes text that must stay as it is until the next flush.
func (g *gather) refer(text []byte) {
	if g.file == nil || len(text) < copyBelow {
		g.buf = append(g.buf, text...)
		return
	}
	g.own()
	g.piece(text)
}

// own makes a piece of the text that has been appended to buf.
func (g *gather) own() {
	if len(g.buf) > g.from {
		g.piece(g.buf[g.from:])
		g.from = len(g.buf)
	}
}

func (g *gather) piece(text []byte) {
	g.pieces = append(g.pieces, unix.Iovec{Base: unsafe.SliceData(text), Len: uint64(len(text))})
	g.size += len(text)
}

// len returns how much waits for flush.
func (g *gather) len() int { return g.size + len(g.buf) - g.from }

// full reports that it is time for flush.
func (g *gather) full() bool {
	return len(g.pieces) >= maxPieces-4 || g.len() > spillAt
}

// flush writes all out.
func (g *gather) flush() error {
	g.flushes++
	var err error
	switch {
	case g.file == nil:
		if len(g.buf) > 0 {
			_, err = g.w.Write(g.buf)
		}
	default:
		g.own()
		if len(g.pieces) > 0 {
			err = g.file.Write(g.step)
		}
		if err == nil {
			err = g.err
		}
		g.pieces = g.pieces[:0]
	}
	g.buf, g.from, g.size = g.buf[:0], 0, 0
	return err
}

// write writes as many pieces as it can. It returns false if it has to be
// called again once the file takes more.
func (g *gather) write(fd uintptr) bool {
	rest := g.pieces
	for len(rest) > 0 {
		some := rest[:min(len(rest), maxPieces)]
		n, _, errno := unix.Syscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(some))), uintptr(len(some)))
		switch errno {
		case 0:
			rest = written(rest, uint64(n))
		case unix.EINTR:
		case unix.EAGAIN:
			g.pieces = g.pieces[:copy(g.pieces, rest)]
			return false
		default:
			g.err = &os.SyscallError{Syscall: "writev", Err: errno}
			return true
		}
	}
	return true
}

// written takes n bytes off the beginning of the pieces.
func written(pieces []unix.Iovec, n uint64) []unix.Iovec {
	for len(pieces) > 0 && n >= pieces[0].Len {
		n -= pieces[0].Len
		pieces = pieces[1:]
	}
	if n > 0 {
		p := &pieces[0]
		p.Base, p.Len = unsafe.SliceData(unsafe.Slice(p.Base, p.Len)[n:]), p.Len-n
	}
	return pieces
}
