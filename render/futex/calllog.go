package futex

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// callLog keeps calls that wait, until what they waited for is known at the end of
// the trace. Calls that do not fit into a buffer go to a temporary file without a
// name.
//
// Invariants:
//   - buf has whole records: each was added at once.
//   - The lock of number n is that of n-1 in numbered, or has become a part of it.
//   - size is how much is in the file.
type callLog struct {
	buf      []byte
	file     *os.File
	size     int64
	err      error
	numbered numbering

	on     bool // calls are kept
	lines  tracefs.LineCounter
	stacks *stacks
	tasks  *tasks
	losses *losses
}

// logBuffer is how much of a log is in memory.
const logBuffer = 1 << 20

// maxLogLocks bounds the locks that have a number. Calls at later ones have no
// lock.
const maxLogLocks = 1 << 20

// Kinds of records of the log.
const (
	logWait = iota
	logLost
	logHold
)

// number returns the number of a lock, 0 if it has none.
func (g *callLog) number(l *lock) int32 {
	if l.logged == 0 && len(g.numbered.list) < maxLogLocks {
		l.logged = g.numbered.add(l) + 1
	}
	return l.logged
}

func (g *callLog) uint(v uint64) { g.buf = binary.AppendUvarint(g.buf, v) }
func (g *callLog) int(v int64)   { g.buf = binary.AppendVarint(g.buf, v) }
func (g *callLog) bool(v bool) {
	n := uint64(0)
	if v {
		n = 1
	}
	g.uint(n)
}

func (g *callLog) text(v string) {
	g.uint(uint64(len(v)))
	g.buf = append(g.buf, v...)
}

// wait adds a call. Its process is known at the end only: it is looked up by
// the thread's life, see thread.
func (g *callLog) wait(w *wait, c *WaitCall) {
	lock := int32(0)
	if w.lock != nil {
		lock = g.number(w.lock.find())
	}
	g.uint(logWait)
	g.int(int64(c.TID))
	g.int(int64(c.PID))
	g.int(w.th.life)
	g.text(c.Comm)
	g.int(int64(lock))
	g.bool(c.HasLock)
	g.uint(c.Address)
	g.bool(c.Shared)
	g.int(int64(c.From))
	g.int(int64(c.To - c.From))
	g.int(c.Line)
	g.int(c.EndLine)
	g.uint(uint64(c.Result))
	g.bool(c.Resumed)
	g.bool(c.Before)
	g.int(int64(w.stack))
	g.uint(uint64(w.missing))
	k := &w.waker
	if c.Result == NoReturn { // nor is it known that it was woken
		k = new(waker)
	}
	if g.int(int64(k.tid)); k.tid != 0 {
		pid, life, line := int32(tracefs.NoTID), int64(-1), int64(0)
		if k.wake != nil {
			pid, life, line = k.wake.th.proc.find().tgid, k.wake.th.life, k.wake.line
		}
		g.int(int64(pid))
		g.int(life)
		g.text(k.comm)
		g.int(int64(k.at))
		g.int(line)
		g.int(int64(k.stackID()))
		g.bool(k.sure)
	}
	g.spill()
}

func (g *callLog) lost(l *LostTime) {
	g.uint(logLost)
	g.int(int64(l.Buffer))
	g.int(int64(l.CPU))
	g.int(int64(l.From))
	g.int(int64(l.To))
	g.uint(l.Records)
	g.spill()
}

// spill writes what has been buffered to the file, if it is enough.
func (g *callLog) spill() {
	if len(g.buf) < logBuffer {
		return
	}
	if g.file == nil && g.err == nil {
		if g.file, g.err = os.CreateTemp("", "ustack-futex-*"); g.err == nil {
			g.err = os.Remove(g.file.Name())
		}
	}
	if g.err == nil {
		_, g.err = g.file.Write(g.buf)
	}
	g.size += int64(len(g.buf))
	g.buf = g.buf[:0]
}

// logVisitor takes what is in a log, in its order: each call with what it waited for, nil if
// unknown. What it gets is valid until it returns.
type logVisitor struct {
	wait func(*lock, *WaitCall) error
	lost func(*LostTime) error
	hold func(*lock, *Hold) error
}

// each reads the log.
func (g *callLog) each(to logVisitor) error {
	r := logReader{log: g}
	if g.err != nil {
		return fmt.Errorf("keeping the waits in a temporary file: %w", g.err)
	}
	in := io.Reader(bytes.NewReader(g.buf))
	if g.file != nil {
		in = io.MultiReader(io.NewSectionReader(g.file, 0, g.size), in)
	}
	for r.in = bufio.NewReaderSize(in, 1<<16); ; {
		kind, err := binary.ReadUvarint(r.in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = r.record(kind, &to)
		}
		if err != nil {
			return err
		}
	}
}

// record reads a record and passes it.
func (r *logReader) record(kind uint64, to *logVisitor) error {
	switch kind {
	case logWait:
		r.lastWait = WaitCall{}
		l := r.wait(&r.lastWait)
		if r.err != nil {
			return r.err
		}
		return to.wait(l, &r.lastWait)
	case logHold:
		r.lastHold = Hold{}
		l := r.hold(&r.lastHold)
		if r.err != nil {
			return r.err
		}
		return to.hold(l, &r.lastHold)
	}
	l := LostTime{Buffer: int(r.int()), CPU: int32(r.int()), From: tracefs.Time(r.int()), To: tracefs.Time(r.int()), Records: r.uint()}
	if r.err != nil {
		return r.err
	}
	return to.lost(&l)
}

// logReader decodes a log.
type logReader struct {
	log *callLog
	in  *bufio.Reader
	err error
	buf []byte
	// What was read last is in one place each: there may be millions.
	lastWait WaitCall
	lastHold Hold
}

func (r *logReader) fail(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("reading the waits back: %w", err)
	}
}

func (r *logReader) uint() uint64 {
	v, err := binary.ReadUvarint(r.in)
	r.fail(err)
	return v
}

func (r *logReader) int() int64 {
	v, err := binary.ReadVarint(r.in)
	r.fail(err)
	return v
}

func (r *logReader) bool() bool { return r.uint() != 0 }

func (r *logReader) text() string {
	n := r.uint()
	if r.err != nil {
		return ""
	}
	r.buf = append(r.buf[:0], make([]byte, n)...)
	_, err := io.ReadFull(r.in, r.buf)
	r.fail(err)
	return r.log.tasks.comms.Intern(r.buf)
}

// process returns the process of a thread, by what was known then, and what is
// known now if it is still the same thread.
func (r *logReader) process(tid int32) int32 {
	pid, life := int32(r.int()), r.int()
	if th := r.log.tasks.threads.get(tid); th != nil && th.life == life {
		if now := th.proc.find().tgid; now != tracefs.NoTID {
			return now
		}
	}
	return pid
}

func (r *logReader) wait(c *WaitCall) (l *lock) {
	c.TID = int32(r.int())
	c.PID = r.process(c.TID)
	c.Comm = r.text()
	if n := r.int(); n > 0 {
		l = r.log.numbered.list[n-1]
	}
	c.HasLock, c.Address, c.Shared = r.bool(), r.uint(), r.bool()
	c.From = tracefs.Time(r.int())
	c.To = c.From + tracefs.Time(r.int())
	c.Line, c.EndLine = r.int(), r.int()
	c.Result, c.Resumed = Result(r.uint()), r.bool()
	c.Before = r.bool()
	c.Stack, c.Missing = r.log.stacks.Get(int32(r.int())), resolve.Missing(r.uint()).String()
	if c.Waker.TID = int32(r.int()); c.Waker.TID != 0 {
		k := &c.Waker
		k.PID = r.process(k.TID)
		k.Comm = r.text()
		k.At, k.Line = tracefs.Time(r.int()), r.int()
		k.Stack, k.Sure = r.log.stacks.Get(int32(r.int())), r.bool()
	}
	return l
}

// DropCalls forgets the calls that were kept: they are no longer needed.
func (a *Analysis) DropCalls() { a.log.drop() }

func (g *callLog) drop() {
	if g.file != nil {
		_ = g.file.Close()
	}
	g.buf, g.file, g.size, g.err, g.numbered = nil, nil, 0, nil, numbering{locks: g.numbered.locks}
}
