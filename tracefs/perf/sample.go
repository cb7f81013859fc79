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
	// Deferred: the stack comes later, with Cookie, as a sample that is Late and has
	// no more than when, where, whose and what Chain (Event.DeferChain). Cookies are
	// unique for a thread.
	Deferred, Late bool
	Cookie         uint64
	// Raw is the record of the tracepoint (Event.Raw), with padding at its end.
	Raw []byte
	// Root is the number of the event that was opened: samples of threads and processes
	// that inherited it have that number.
	Root uint64
}

// Clone returns a copy that remains valid.
func (s *StackSample) Clone() *StackSample {
	c := *s
	c.Stack, c.Chain, c.Raw = slices.Clone(s.Stack), slices.Clone(s.Chain), slices.Clone(s.Raw)
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

// DecodeStack decodes a sample of the event. The error wraps ErrRecord. s.Stack and
// s.Raw lie in b.
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
	s.ids(ids)
	s.Tracepoint = e.Tracepoint
	c := cutter{rest: b[headerSize+len(ids):]}
	if e.CallChain > 0 {
		s.chain(chain, c.words(c.word()))
	}
	if asSource && e.Raw {
		s.raw(&c)
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

// recordDeferred is PERF_RECORD_CALLCHAIN_DEFERRED: a cookie, the number of addresses, the
// addresses.
const recordDeferred = 22

// DecodeLate decodes a stack that was unwound on return to user space. The error wraps
// ErrRecord.
func (e *Event) DecodeLate(b []byte, s *StackSample) error {
	chain := s.Chain[:0]
	*s = StackSample{Late: true}
	l := e.Layout()
	n, err := size(b)
	if err != nil {
		return err
	}
	b = b[:n]
	if s.Time, err = l.when(b); err != nil {
		return err
	}
	s.ids(l.ids(b))
	c := cutter{rest: b[headerSize : n-l.idsSize()]}
	s.Cookie = c.word()
	addrs := c.words(c.word())
	if recordType(b) != recordDeferred || c.bad {
		return bad("a deferred stack is cut off", n)
	}
	for ; len(addrs) > 0; addrs = addrs[8:] {
		chain = append(chain, binary.NativeEndian.Uint64(addrs))
	}
	s.Chain = chain
	return nil
}

// ids takes the common part of a record.
func (s *StackSample) ids(ids []byte) {
	put := binary.NativeEndian
	s.PID, s.TID = int(int32(put.Uint32(ids))), int(int32(put.Uint32(ids[4:])))
	s.CPU = int(put.Uint32(ids[len(ids)-8:]))
}

// chain takes the addresses of user space of a call chain, or the cookie that stands for
// them.
func (s *StackSample) chain(chain []uint64, b []byte) {
	const (
		marks    = ^uint64(4095) // and above: PERF_CONTEXT_*, what kind of addresses follow
		deferred = -640          // PERF_CONTEXT_USER_DEFERRED
	)
	user, cookie := false, false
	for ; len(b) > 0; b = b[8:] {
		v := binary.NativeEndian.Uint64(b)
		switch {
		case cookie:
			s.Cookie, s.Deferred, cookie = v, true, false
		case v >= marks:
			user, cookie = int64(v) == unix.PERF_CONTEXT_USER, int64(v) == deferred
		case user:
			chain = append(chain, v)
		}
	}
	s.Chain = chain
}

// raw takes PERF_SAMPLE_RAW: the size in 4 bytes, then the record; together they are
// words of 8 bytes.
func (s *StackSample) raw(c *cutter) {
	const sizeOf = 4
	if len(c.rest) < sizeOf {
		c.bad, c.rest = true, nil
		return
	}
	n := uint64(binary.NativeEndian.Uint32(c.rest))
	if (n+sizeOf)%8 != 0 {
		c.bad, c.rest = true, nil
		return
	}
	if b := c.words((n + sizeOf) / 8); b != nil {
		s.Raw = b[sizeOf:]
	}
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
