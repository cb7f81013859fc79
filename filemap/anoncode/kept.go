//go:build !device

package anoncode

import (
	"fmt"
	"io"
	"strconv"

	"ustack/filemap"
	"ustack/filemap/hotspot"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/escape"
)

// The names of a saved trace are lines, each after the ones that it needs:
//
//	# ustack names 1 trace=ID
//	map START NAME                         a function of a perf map
//	runtime INDEX NAME[<tab>INLINED]...    of a virtual machine, at a bytecode
//	frames K:ADDR:N...                     of a stack: frame K at ADDR is in function N
//	stack SEC.NANOS TID TURN N             that stack has the frames N
//	left N                                 frames had a name that is not here: too many
//
// START and ADDR are hexadecimal. Functions and frames count from 0. TURN is how many stacks
// of the thread come before, with the same time: text has microseconds. Names are as package
// escape writes them.

// KeepsNames: names are kept for saved traces, and read.
const KeepsNames = true

const namesHead = "# ustack names 1 trace="

// Bounds of what is kept. A reader takes no more, either.
const (
	maxKeptNames  = 16 << 20 // bytes of the lines of functions and frames
	maxKeptLine   = 64 << 10
	maxKeptStacks = 1 << 21
)

// turns numbers the stacks of a thread that have the same time.
type turns map[int32]turn

type turn struct {
	at tracefs.Time
	n  int
}

func newTurns() turns { return make(turns) }

// maxTurns bounds the threads that are known.
const maxTurns = 1 << 16

// next returns the number of a stack, 0 for the first one at its time.
func (t turns) next(s *resolve.Query) int {
	last, ok := t[s.TID]
	if ok = ok && last.at == s.Time; ok {
		last.n++
	} else {
		if len(t) >= maxTurns {
			clear(t)
		}
		last = turn{at: s.Time}
	}
	t[s.TID] = last
	return last.n
}

// Keeper writes the names that frames have into a file, so that the saved trace has them
// where the process, or its map, is not. It is used by one goroutine.
type Keeper struct {
	w      io.Writer
	buf    []byte
	codes  map[*filemap.Code]int
	frames map[string]int
	line   []byte
	names  int // bytes of the lines of functions and frames
	stacks int
	left   int64 // frames without
	err    error
}

// NewKeeper returns a Keeper. id is that of the saved trace.
func NewKeeper(w io.Writer, id string) *Keeper {
	k := &Keeper{w: w, codes: make(map[*filemap.Code]int), frames: make(map[string]int)}
	k.buf = append(append(append(k.buf, namesHead...), id...), '\n')
	return k
}

// stack notes the names of a stack.
func (k *Keeper) stack(s *resolve.Query, turn int, named []hotspot.Named) {
	n, ok := k.list(named)
	if !ok || k.stacks == maxKeptStacks {
		k.left += int64(len(named))
		return
	}
	k.stacks++
	const second = 1e9
	k.buf = fmt.Appendf(k.buf, "stack %d.%09d %d %d %d\n", s.Time/second, s.Time%second, s.TID, turn, n)
	if len(k.buf) > maxKeptLine {
		k.flush()
	}
}

// list returns the number of the frames of a stack.
func (k *Keeper) list(named []hotspot.Named) (n int, ok bool) {
	line := append(k.line[:0], "frames"...)
	for i := range named {
		f := &named[i]
		code, ok := k.code(f.Code)
		if !ok {
			return 0, false
		}
		line = strconv.AppendInt(append(line, ' '), int64(f.Frame), 10)
		line = strconv.AppendUint(append(line, ':'), f.Addr, 16)
		line = strconv.AppendInt(append(line, ':'), int64(code), 10)
	}
	k.line = line
	if n, ok = k.frames[string(line)]; ok {
		return n, true
	}
	n = len(k.frames)
	if !k.write(line) {
		return 0, false
	}
	k.frames[string(line)] = n
	return n, true
}

// code returns the number of a function.
func (k *Keeper) code(c *filemap.Code) (n int, ok bool) {
	if n, ok = k.codes[c]; ok {
		return n, true
	}
	var line []byte
	if c.Runtime {
		line = strconv.AppendUint(append(line, "runtime "...), c.Offset, 10)
	} else {
		line = strconv.AppendUint(append(line, "map "...), c.Start, 16)
	}
	line = escape.Append(append(line, ' '), []byte(c.Function))
	for _, name := range c.Inlined {
		line = escape.Append(append(line, '\t'), []byte(name))
	}
	n = len(k.codes)
	if !k.write(line) {
		return 0, false
	}
	k.codes[c] = n
	return n, true
}

// write writes the line of a function or of frames, if there is room.
func (k *Keeper) write(line []byte) bool {
	if k.names += len(line) + 1; k.names > maxKeptNames || len(line) >= maxKeptLine {
		k.names -= len(line) + 1
		return false
	}
	k.buf = append(append(k.buf, line...), '\n')
	return true
}

func (k *Keeper) flush() {
	if k.err == nil && len(k.buf) > 0 {
		_, k.err = k.w.Write(k.buf)
	}
	k.buf = k.buf[:0]
}

// Left returns how many frames had names for which there was no room.
func (k *Keeper) Left() int64 {
	if k == nil {
		return 0
	}
	return k.left
}

// Close writes what is left. It does not close the file. A nil Keeper has nothing.
func (k *Keeper) Close() error {
	if k == nil {
		return nil
	}
	if k.left > 0 {
		k.buf = fmt.Appendf(k.buf, "left %d\n", k.left)
	}
	k.flush()
	if k.err != nil {
		return fmt.Errorf("saving the names of code in no file: %w", k.err)
	}
	return nil
}
