package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"ustack/tracefs"
	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/format"
	"ustack/tracefs/instance"
	"ustack/tracefs/ring"
)

// Depth is how many addresses a stack of the option userstacktrace has at most
// (FTRACE_STACK_ENTRIES in kernel/trace/trace.h).
const Depth = 8

// Stack is the user stack of an event, as the kernel found it then: addresses,
// innermost first.
type Stack struct {
	Time  tracefs.Time // exact, by the clock of the trace
	TID   int32
	Addrs []uint64 // valid until the call that it is given to returns
}

// Loss is a time in which stacks of a CPU are missing.
type Loss struct {
	CPU int32
	// Records is how many records the kernel had no room for, 0 if it does not
	// say.
	Records  uint64
	From, To tracefs.Time
}

// Rings are the ring buffers of all CPUs. RawPipe with Copy is one.
type Rings interface {
	CPUs() []int32
	Hold() bool
	Release()
	Next(index int) (page []byte, fresh bool, err error)
	Close() error
}

// Stacks reads the stock stacks of an instance and nothing else of it.
type Stacks struct {
	pageReader
	record stackRecord
	addrs  [Depth]uint64
}

// stackRecord is where a record of user_stack has what (struct userstack_entry).
type stackRecord struct {
	id            uint16
	kind, pid     int
	caller, count int
	size          int
}

// StackOptions are how OpenStacks reads.
type StackOptions struct {
	// Begun is a time before the first record.
	Begun tracefs.Time
}

// OpenStacks begins to read the stock stacks of an instance, whose clock must be
// mono. It must be its only reader.
func OpenStacks(in *instance.Instance, opt StackOptions) (*Stacks, error) {
	clock, err := in.Clock()
	if err != nil {
		return nil, err
	}
	if clock != "mono" {
		return nil, fmt.Errorf("reading the stacks of an instance with the clock %s: it must be mono", clock)
	}
	k, err := tracebinary.ReadMeta(in.Root().FS(), in.FS(), "ftrace/user_stack")
	if err != nil {
		return nil, fmt.Errorf("reading how the ring buffer is laid out: %w", err)
	}
	layout := k.Layout
	if k.Subbuf > 0 {
		layout.Size = k.Subbuf
	}
	var record *format.Event
	for _, e := range k.Events {
		if e.System == "ftrace" && e.Name == "user_stack" {
			record = e
		}
	}
	pipe, err := in.RawPipe(instance.RawOptions{Subbuf: layout.Size, Copy: true})
	if err != nil {
		return nil, err
	}
	s, err := NewStacks(pipe, layout, record, opt)
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return s, nil
}

// errNoStackRecord: the place of the addresses in a stack record is unknown.
var errNoStackRecord = errors.New("reading stacks: the kernel does not say how they are laid out (events/ftrace/user_stack/format)")

// NewStacks reads stacks, of which e is the format, from rings.
func NewStacks(rings Rings, layout ring.Layout, e *format.Event, opt StackOptions) (*Stacks, error) {
	if e == nil {
		return nil, errNoStackRecord
	}
	kind, pid, caller := e.Field("common_type"), e.Field("common_pid"), e.Field("caller")
	const long = 8
	if kind == nil || pid == nil || caller == nil || kind.Size != 2 || pid.Size != 4 || layout.LongSize != long ||
		caller.Loc != format.Inline || caller.Size < long || e.ID < 0 || e.ID > math.MaxUint16 {
		return nil, errNoStackRecord
	}
	s := &Stacks{pageReader: newPageReader(rings, layout, opt.Begun), record: stackRecord{
		id: uint16(e.ID), kind: kind.Offset, pid: pid.Offset, caller: caller.Offset, count: min(caller.Size/long, Depth),
	}}
	s.record.size = max(kind.Offset+2, pid.Offset+4, caller.Offset+s.record.count*long)
	return s, nil
}

// Drain calls take with all stacks up to a time, the stacks of each CPU in their
// order, and lost with the losses. Later stacks stay where they are.
func (s *Stacks) Drain(until tracefs.Time, take func(*Stack), lost func(Loss)) error {
	if !s.rings.Hold() {
		return nil // closed: the end
	}
	defer s.rings.Release()
	for i := range s.cpus {
		if err := s.drain(i, until, take, lost); err != nil {
			return err
		}
	}
	return nil
}

// drain gives the stacks of a CPU.
func (s *Stacks) drain(i int, until tracefs.Time, take func(*Stack), lost func(Loss)) error {
	var st Stack
	for {
		t, more, err := s.peek(i, until, lost)
		if err != nil || !more || t > until {
			return err
		}
		if s.decode(s.taken(i, t), &st) {
			st.Time = t
			take(&st)
		}
	}
}

// decode takes a record apart; it reports false if it is none of a stack.
func (s *Stacks) decode(rec []byte, st *Stack) bool {
	r, e := &s.record, binary.NativeEndian
	if len(rec) < r.size || e.Uint16(rec[r.kind:]) != r.id {
		return false
	}
	st.TID = int32(e.Uint32(rec[r.pid:]))
	st.Addrs = s.addrs[:0]
	for at := r.caller; len(st.Addrs) < r.count; at += 8 {
		addr := e.Uint64(rec[at:])
		if addr == 0 {
			break
		}
		st.Addrs = append(st.Addrs, addr)
	}
	return st.TID > 0 && len(st.Addrs) > 0
}
