package bpffutex

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// errFormat: the programs of this package wrote something else.
var errFormat = errors.New("not what the BPF programs write")

// Several is in the place of the address of what futex_waitv waits for, one of several futexes.
const Several = 1<<64 - 1

// Futex is a futex of a process. Memory and Born make it that of one program of one process:
// its number can be another's later, and an exec gives it other memory.
type Futex struct {
	Addr         uint64
	Memory, Born uint64
	TGID         int32
	Shared       bool // FUTEX_PRIVATE_FLAG was not set
}

// Unsettled is in the place of a number of changes while a call that can map code is under way.
const Unsettled = 1<<64 - 1

// Frame is a frame of a stack: an offset in the file with a build ID, or an address, where the
// kernel did not find a build ID.
type Frame struct {
	BuildID   [20]byte
	Number    uint64 // offset or address
	IsAddress bool
}

// Wait is a wait of at least the minimum length that has ended. Times are nanoseconds of
// CLOCK_MONOTONIC.
type Wait struct {
	Futex
	From, To tracefs.Time
	TID      int32
	Comm     []byte
	Cmd      syscalls.Cmd
	Val      uint32 // that the futex had to have
	Result   int32  // of the call, a negative error number
	// Stack is the user stack, innermost frame first. Cut is set if the kernel took no more
	// frames; Err is the kernel's error if there is none, a negative error number.
	Stack []Frame
	Cut   bool
	Err   int32
	// Code is how many pages of code (executable and not writable) the process had mapped; Changes
	// is the number of Source.Changes then, or Unsettled.
	Code, Changes uint64
	// Known is the number of the stack if it is one of Source.Know; there are no Copy, and no more
	// than one frame then. Else it is 0.
	Known uint64
	// Copy is what was copied for the stack to be unwound by tables, nil if nothing was.
	Copy *Copy
	// Raw is the stack as the kernel wrote it: stacks with the same bytes are the same. It is nil
	// if the wait is not of a kernel, and valid until the next wait is read.
	Raw []byte

	copied Copy
}

// maxFrames is FRAMES of futex.bpf.c.
const maxFrames = 127

// Sizes and offsets of the structures in futex.bpf.c.
const (
	recordHead = 112
	entrySize  = 32
	keySize    = 32
	sumSize    = 520
	begunSize  = 48
)

// Flags of a command: the flags of futex(2), and TIMED and BROKEN of futex.bpf.c.
const (
	flagPrivate = 0x80
	flagsAll    = 0x780
	ownFlags    = 0x30000
)

// decode decodes a record of the ring buffer into w, whose memory is used again.
func (w *Wait) decode(b []byte) error {
	if len(b) < recordHead {
		return fmt.Errorf("%w: a record of %d bytes", errFormat, len(b))
	}
	u64, u32 := binary.NativeEndian.Uint64, binary.NativeEndian.Uint32
	op := u32(b[48:])
	size := int32(u32(b[60:]))
	stack := b[recordHead:]
	switch {
	case size > int32(len(stack)) || size > maxFrames*entrySize:
		return fmt.Errorf("%w: a stack of %d bytes in a record of %d", errFormat, size, len(b))
	case u64(b[8:]) < u64(b), u64(b[8:]) > 1<<62:
		return fmt.Errorf("%w: a wait from %d to %d", errFormat, u64(b), u64(b[8:]))
	}
	// One by one: to make a Wait and to copy it took a part of the time that shows.
	w.Addr, w.Memory, w.Born, w.TGID, w.Shared = u64(b[16:]), u64(b[24:]), u64(b[32:]), int32(u32(b[40:])), op&flagPrivate == 0
	w.From, w.To, w.TID, w.Comm = tracefs.Time(u64(b)), tracefs.Time(u64(b[8:])), int32(u32(b[44:])), append(w.Comm[:0], text(b[64:80])...)
	w.Cmd, w.Val, w.Result, w.Code, w.Changes, w.Known = command(op), u32(b[52:]), int32(u32(b[56:])), u64(b[80:]), u64(b[88:]), u64(b[104:])
	w.Stack, w.Cut, w.Err, w.Copy, w.Raw = w.Stack[:0], false, 0, nil, nil
	if w.TGID <= 0 || w.TID <= 0 {
		return fmt.Errorf("%w: thread %d of process %d", errFormat, w.TID, w.TGID)
	}
	if size < 0 {
		w.Err, size = size, 0
	} else {
		w.Raw = stack[:size]
	}
	if copied := u32(b[96:]); copied > 0 {
		if !w.copied.decode(layouts[runtime.GOARCH], stack[size:], copied, u32(b[100:])) {
			return fmt.Errorf("%w: a copy of %d bytes in a record of %d", errFormat, copied, len(b))
		}
		w.Copy = &w.copied
	}
	return w.frames(w.Raw)
}

// frames decodes a stack (struct bpf_stack_build_id in include/uapi/linux/bpf.h), which ends
// with the first empty entry.
func (w *Wait) frames(b []byte) error {
	if len(b)%entrySize != 0 {
		return fmt.Errorf("%w: a stack of %d bytes", errFormat, len(b))
	}
	const empty, valid, ip = 0, 1, 2
	w.Cut = w.Known != 0
	for at := 0; at < len(b); at += entrySize {
		e := b[at : at+entrySize]
		f := Frame{Number: binary.NativeEndian.Uint64(e[24:])}
		switch status := binary.NativeEndian.Uint32(e); status {
		case empty:
			return nil
		case valid:
			copy(f.BuildID[:], e[4:])
		case ip:
			f.IsAddress = true
		default:
			return fmt.Errorf("%w: a frame with status %d", errFormat, status)
		}
		w.Stack = append(w.Stack, f)
	}
	w.Cut = w.Cut || len(w.Stack) == maxFrames
	return nil
}

// command returns the command of an operation with its flags.
func command(op uint32) syscalls.Cmd {
	if c := op &^ (flagsAll | ownFlags); c <= uint32(syscalls.Waitv) {
		return syscalls.Cmd(c)
	}
	return syscalls.Unknown
}

// text returns a string that ends with the first zero.
func text(b []byte) []byte {
	s, _, _ := bytes.Cut(b, []byte{0})
	return s
}

// Buckets is how many classes a histogram of durations has: class n is of durations of n bits,
// the last one of all that are longer.
const Buckets = 44

// Values are how often a futex was waited for with a value: 0, 2, 3, one with the bit
// FUTEX_WAITERS, one that can be a count, or any other.
type Values struct{ Zero, Two, Three, Owner, Count, Other uint64 }

// Results are how often waits ended in a way.
type Results struct{ Woken, Changed, TimedOut, Interrupted, Requeued, Failed uint64 }

// Seen is what calls of a futex had, once or often.
type Seen struct {
	Plain, Bitset, PI, Requeue  bool // the commands
	Realtime, Endless           bool // FUTEX_CLOCK_REALTIME, and then no timeout
	Timeout, NoTimeout, Several bool // Several: a call would wake more than one
}

// Sum is the sum of all calls of a futex.
type Sum struct {
	Results Results
	Values  Values
	// Slept waits slept and ended. Time is how long, Buckets how often which duration.
	Slept   uint64
	Time    tracefs.Time
	Buckets [Buckets]uint64
	Wakes   uint64 // calls that wake
	Woken   uint64 // threads that they woke
	Longs   uint64 // waits of at least the minimum length
	Seen    Seen
	Comm    []byte // of the process
}

// decodeKey decodes a key of the map sums.
func decodeKey(b []byte) (f Futex, err error) {
	if len(b) != keySize {
		return f, fmt.Errorf("%w: a key of %d bytes", errFormat, len(b))
	}
	u64, u32 := binary.NativeEndian.Uint64, binary.NativeEndian.Uint32
	return Futex{Addr: u64(b), Memory: u64(b[8:]), Born: u64(b[16:]), TGID: int32(u32(b[24:])), Shared: u32(b[28:]) != 0}, nil
}

// decode decodes a value of the maps sums and others into s, whose memory is used again.
func (s *Sum) decode(b []byte) error {
	if len(b) != sumSize {
		return fmt.Errorf("%w: a sum of %d bytes", errFormat, len(b))
	}
	at := 0
	next := func() uint64 {
		at += 8
		return binary.NativeEndian.Uint64(b[at-8:])
	}
	r, v := &s.Results, &s.Values
	for _, to := range [...]*uint64{
		&r.Woken, &r.Changed, &r.TimedOut, &r.Interrupted, &r.Requeued, &r.Failed,
		&v.Zero, &v.Two, &v.Three, &v.Owner, &v.Count, &v.Other, &s.Slept, (*uint64)(nil), &s.Wakes, &s.Woken, &s.Longs,
	} {
		if to == nil {
			s.Time = tracefs.Time(next() & (1<<62 - 1))
			continue
		}
		*to = next()
	}
	for i := range s.Buckets {
		s.Buckets[i] = next()
	}
	for i, to := range [...]*bool{&s.Seen.Plain, &s.Seen.Bitset, &s.Seen.PI, &s.Seen.Requeue, &s.Seen.Realtime, &s.Seen.Endless, &s.Seen.Timeout, &s.Seen.NoTimeout, &s.Seen.Several} {
		*to = b[at+i] != 0
	}
	s.Comm = append(s.Comm[:0], text(b[at+16:])...)
	return nil
}

// Waiting is a wait that has not ended.
type Waiting struct {
	Futex
	TID  int32
	From tracefs.Time
	Val  uint32
	Cmd  syscalls.Cmd
	// Timeout: it has one. Broken: a signal broke it off, and it is not known whether it goes on.
	Timeout, Broken bool
}

// decodeWaiting decodes an element of the map begun. From is 0 if its thread does not wait.
func decodeWaiting(key, b []byte) (w Waiting, err error) {
	if len(key) != 4 || len(b) != begunSize {
		return w, fmt.Errorf("%w: %d and %d bytes", errFormat, len(key), len(b))
	}
	u64, u32 := binary.NativeEndian.Uint64, binary.NativeEndian.Uint32
	op := u32(b[32:])
	const timed, broken = 0x10000, 0x20000
	return Waiting{
		Futex: Futex{Addr: u64(b[8:]), Memory: u64(b[16:]), Born: u64(b[24:]), TGID: int32(u32(b[40:])), Shared: op&flagPrivate == 0},
		TID:   int32(u32(key)), From: tracefs.Time(u64(b) & (1<<62 - 1)), Val: u32(b[36:]), Cmd: command(op), Timeout: op&timed != 0, Broken: op&broken != 0,
	}, nil
}

// Loss is what the programs could not count, or not send.
type Loss struct {
	// Waits began while too many threads that live had waited: they are missing.
	Waits uint64
	// Records are waits of at least the minimum length that are in the sums and nowhere
	// else: the ring buffer was full.
	Records uint64
	// Apart are calls of futexes that were too many to keep apart: they are in one sum.
	Apart uint64
	// Before are returns from waits whose entry was not counted: they began before, or are
	// some of Waits or Missed.
	Before uint64
	// Children are processes that are not looked at, as there were too many.
	Children uint64
	// Requeues are calls of futex_requeue whose futexes could not be read.
	Requeues uint64
	// Copies are waits whose stack was to be copied and was not: there was no room for it. Pages are
	// those whose stack was not in memory.
	Copies, Pages uint64
	// Missed is how often the kernel did not run a program, as it was running already on that
	// CPU: so many entries or returns are missing.
	Missed uint64
}
