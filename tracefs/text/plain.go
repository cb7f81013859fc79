package text

import "ustack/tracefs"

// Frames of stock kernels: " =>  <00007ff49fdce829>" and nothing else.

// Words that the title of a stock stack is made of, as le64 loads them.
var stockStart = [...]uint64{le64([]byte("<user st")), le64([]byte("ack trac")), le64([]byte("e>\n\x00\x00\x00\x00\x00"))}

const (
	stockTitle = len("<user stack trace>\n")
	plainLine  = len(" =>  <00007ff49fdce829>")
)

// isStock reports whether a body is the title of a stock stack.
func isStock(first uint64, body *[32]byte) bool {
	return first == stockStart[0] && le64(body[8:]) == stockStart[1] && le64(body[16:])&mask(3) == stockStart[2]
}

// plainAddress reads the line of a frame that ends with the address,
// which is plainLine long. The two words are below 2^32 each.
func plainAddress(line []byte) (addr uint64, ok bool) {
	const digits = 6
	if le64(line)&mask(digits) != frameStart || line[plainLine-1] != '>' {
		return 0, false
	}
	hi, ok := hexWord(le64(line[digits:]), 8)
	lo, also := hexWord(le64(line[digits+8:]), 8)
	return hi<<32 | lo, ok && also
}

// plainFrames takes frames of stock kernels.
func (w *walk) plainFrames() {
	text, frames, i := w.b.Text, w.b.Frames, w.i
	for i+fastMargin <= len(text) && text[i+plainLine] == '\n' {
		addr, ok := plainAddress(text[i : i+plainLine])
		if !ok {
			break
		}
		frames = oneMore(frames)
		off, end := uint32(i), uint32(i+plainLine)
		f := &frames[len(frames)-1]
		f.ID, f.Addr, f.HasAddr, f.Form = tracefs.Identifier{}, addr, true, tracefs.FormPlain
		f.Off, f.AddrEnd, f.End = off, end, end
		f.Unnote()
		i += plainLine + 1
		w.o.stack = wantFrames
	}
	w.b.Lines += int64(len(frames) - len(w.b.Frames))
	w.b.Frames, w.i = frames, i
}
