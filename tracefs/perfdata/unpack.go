package perfdata

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory for decompressing: perf does not ask for more than the
// levels up to 22 use for a stream of unknown size.
const maxWindow = 128 << 20

// unpacker decompresses the zstd stream that the compressed records of a file make
// together. perf flushes the stream at the end of each, so all that is in a record can
// be decompressed without the next one.
//
// The decoder asks for input when it has given all output, in the middle of its work. It
// runs as a coroutine, which that ends until there is the next record.
type unpacker struct {
	in   []byte // the record, as far as it has not been read
	out  []byte // decompressed, as far as it has not been taken
	err  error
	next func() ([]byte, bool)
	stop func()
	done bool
}

func newUnpacker() *unpacker {
	u := new(unpacker)
	u.next, u.stop = iter.Pull(u.run)
	return u
}

// errStopped ends a decoder that is not needed any more.
var errStopped = errors.New("stopped")

// run decompresses. It yields each piece of output, and nil if it needs input.
func (u *unpacker) run(yield func([]byte) bool) {
	r := inputFunc(func(p []byte) (int, error) {
		for len(u.in) == 0 {
			if !yield(nil) {
				return 0, errStopped
			}
		}
		n := copy(p, u.in)
		u.in = u.in[n:]
		return n, nil
	})
	w := outputFunc(func(p []byte) (int, error) {
		if len(p) > 0 && !yield(p) {
			return 0, errStopped
		}
		return len(p), nil
	})
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err == nil {
		_, err = d.WriteTo(w)
		d.Close()
	}
	if err == nil {
		err = io.ErrUnexpectedEOF // the input has no end
	}
	u.err = fmt.Errorf("decompressing zstd: %w", err)
}

type inputFunc func([]byte) (int, error)

func (f inputFunc) Read(p []byte) (int, error) { return f(p) }

type outputFunc func([]byte) (int, error)

func (f outputFunc) Write(p []byte) (int, error) { return f(p) }

// feed gives the contents of the next record, once all of the one before is read. They
// must stay until then.
func (u *unpacker) feed(in []byte) { u.in = in }

// read reads decompressed bytes. The error is errNoInput after the last one of the
// record.
func (u *unpacker) read(p []byte) (int, error) {
	for len(u.out) == 0 {
		if u.done {
			return 0, u.err
		}
		out, ok := u.next()
		switch {
		case !ok:
			u.done = true
		case out == nil && len(u.in) == 0:
			return 0, errNoInput
		default:
			u.out = out
		}
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

// close ends the decoder.
func (u *unpacker) close() { u.stop() }
