package stackid

import (
	"bufio"
	"errors"
	"io"

	"ustack/tracefs/text"
)

// Uses says how often a trace has each number.
type Uses map[uint32]int64

// longestLine is how much of a line is looked at: a longer one is no number of a stack.
const longestLine = 64 << 10

// lines reads lines, of which long ones come in parts.
type lines struct {
	in   *bufio.Reader
	ids  *text.StackIDs
	part bool // the line before had no end
}

func newLines(r io.Reader) lines {
	in := bufio.NewReaderSize(r, longestLine)
	begin, _ := in.Peek(text.MaxHead) // reading reports the error
	head, _, _ := text.CutHead(begin, true)
	return lines{in: in, ids: text.NewStackIDs(head > 0)}
}

// next returns the next line, valid until the next call, and the number in it. Both may come
// with an error.
func (l *lines) next() (line []byte, head int, id uint32, is bool, err error) {
	line, err = l.in.ReadSlice('\n')
	whole := !l.part
	if l.part = errors.Is(err, bufio.ErrBufferFull); l.part {
		err = nil
	}
	if whole && !l.part && text.MayHaveStackID(line) {
		head, id, is = l.ids.Find(line)
	}
	return line, head, id, is, err
}

// Count counts the numbers in a trace. If it cannot be read to its end, those before count:
// reading it again reports the error.
func Count(trace io.Reader) Uses {
	uses, l := make(Uses), newLines(trace)
	for {
		_, _, id, is, err := l.next()
		if is && id < maxStacks {
			uses[id]++
		}
		if err != nil {
			return uses
		}
	}
}

// Reader reads a trace with the stacks of a map in place of their numbers. All else stays as it
// is, byte by byte. It implements io.Reader.
type Reader struct {
	lines lines
	of    *Map
	out   []byte // to be read
	stack []byte
	err   error
}

// NewReader reads a trace.
func NewReader(trace io.Reader, of *Map) *Reader { return &Reader{lines: newLines(trace), of: of} }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		line, head, id, is, err := r.lines.next()
		r.out, r.err = line, err
		if s, ok := r.of.stacks[id]; is && ok {
			r.stack = append(r.stack[:0], line[:head]...)
			r.stack = text.AppendKernelStack(r.stack, s.frames)
			r.out = r.stack
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}
