package perf

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
)

// StackSample is a thread as it was when it hit a tracepoint.
type StackSample struct {
	// TID and PID are the thread and its process; 0 or less if they are outside
	// of our PID namespace.
	TID, PID int
	CPU      int
	Time     tracefs.Time
	// Tracepoint is the number of the tracepoint (Event.Tracepoint).
	Tracepoint uint64
	ABI        ABI
	// Regs are the registers of user space.
	Regs Registers
	// Stack is the memory from the stack pointer on, as much as the kernel could
	// copy. Short reports whether that was less than what was asked for: the
	// mapping ends there, or a page was not in memory.
	Stack []byte
	Short bool
	// Chain is the stack as the kernel unwound it by frame pointers: addresses,
	// innermost first.
	Chain []uint64
}

// Clone returns a copy that remains valid.
func (s *StackSample) Clone() *StackSample {
	c := *s
	c.Stack, c.Chain = slices.Clone(s.Stack), slices.Clone(s.Chain)
	return &c
}

// cutter takes values from the front of a sample.
type cutter struct {
	rest []byte
	bad  bool
}

// words takes n words of 8 bytes.
func (c *cutter) words(n uint64) []byte {
	if n > uint64(len(c.rest))/8 {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n*8]
	c.rest = c.rest[n*8:]
	return b
}

func (c *cutter) word() uint64 {
	b := c.words(1)
	if b == nil {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

// DecodeStack decodes a sample of the event. The error wraps ErrRecord. s.Stack lies
// in b.
func (e *Event) DecodeStack(b []byte, s *StackSample) error {
	return e.decodeStack(runtime.GOARCH, b, s)
}

func (e *Event) decodeStack(arch string, b []byte, s *StackSample) error {
	chain := s.Chain[:0]
	*s = StackSample{}
	l := e.Layout()
	n, err := size(b)
	if err != nil {
		return err
	}
	b = b[:n]
	if s.Time, err = l.when(b); err != nil {
		return err
	}
	if recordType(b) != unix.PERF_RECORD_SAMPLE {
		return bad("it is no sample", n)
	}
	ids := l.ids(b)
	put := binary.NativeEndian
	s.PID, s.TID = int(int32(put.Uint32(ids))), int(int32(put.Uint32(ids[4:])))
	s.CPU, s.Tracepoint = int(put.Uint32(ids[len(ids)-8:])), e.Tracepoint
	c := cutter{rest: b[headerSize+len(ids):]}
	if e.CallChain > 0 {
		s.Chain = appendChain(chain, c.words(c.word()))
	}
	if e.Registers {
		s.registers(arch, &c)
	}
	if e.StackBytes > 0 {
		s.stack(&c, e.StackBytes)
	}
	if c.bad {
		return bad("a sample of a stack is cut off", n)
	}
	return nil
}

// appendChain appends the addresses of user space of a call chain.
func appendChain(chain []uint64, b []byte) []uint64 {
	const marks = ^uint64(4095) // and above: PERF_CONTEXT_*, what kind of addresses follow
	user := false
	for ; len(b) > 0; b = b[8:] {
		v := binary.NativeEndian.Uint64(b)
		switch {
		case v >= marks:
			user = int64(v) == unix.PERF_CONTEXT_USER
		case user:
			chain = append(chain, v)
		}
	}
	return chain
}

// registers takes PERF_SAMPLE_REGS_USER.
func (s *StackSample) registers(arch string, c *cutter) {
	abi := c.word()
	if abi == uint64(ABINone) {
		return
	}
	if abi > uint64(ABI64) {
		c.bad = true
		return
	}
	values := c.words(uint64(bits.OnesCount64(registerMask(arch))))
	if c.bad {
		return
	}
	s.ABI = ABI(abi)
	s.Regs.decode(arch, s.ABI, func(i int) uint64 { return binary.NativeEndian.Uint64(values[8*i:]) })
}

// stack takes PERF_SAMPLE_STACK_USER: the size of the room, the room, and how much
// of it the kernel has filled.
func (s *StackSample) stack(c *cutter, asked int) {
	room := c.word()
	if room == 0 {
		s.Short = true
		return
	}
	if room%8 != 0 {
		c.bad = true
		return
	}
	b := c.words(room / 8)
	filled := c.word()
	if c.bad || filled > room {
		c.bad = true
		return
	}
	s.Stack, s.Short = b[:filled], filled < uint64(asked)
}
