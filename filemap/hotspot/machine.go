package hotspot

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ustack/filemap"
	"ustack/tracefs"
)

// Machine is the virtual machine of a process. It may be used by several goroutines.
//
// Invariants: starts are the keys of blobs, in order. What was read of a piece of code or a
// method was there from first to last: reading it had ended at first, and began at last.
type Machine struct {
	mu    sync.Mutex // of all that follows
	used  tracefs.Time
	mem   *budget
	now   func() tracefs.Time
	l     *layout
	names *Names

	heaps       []heap
	interpreter [2]uint64
	callStub    uint64
	kinds       map[uint64]kind
	blobs       map[uint64]*known
	starts      []uint64
	methods     map[uint64]*knownMethod

	turn    int          // the index in starts of what is read anew next
	opened  tracefs.Time // since then all is known that does not change
	scanned tracefs.Time // when the last scan ended
	rest    tracefs.Time // before the next
	count   *Counts
}

// Counts is what became of the frames of stacks in code of virtual machines. It may be read
// at any time.
type Counts struct {
	Frames  atomic.Uint64 // whose code is proven
	Unnamed atomic.Uint64 // of the interpreter, whose method is not proven
	Fresh   atomic.Uint64 // whose code was not known before: their stacks end
	Changed atomic.Uint64 // whose code was other code before: their stacks end
	Unread  atomic.Uint64 // whose code or method cannot be read: their stacks end
}

// of returns the count of frames in a state.
func (c *Counts) of(s state) *atomic.Uint64 {
	switch s {
	case proven:
		return &c.Frames
	case fresh:
		return &c.Fresh
	case changed:
		return &c.Changed
	}
	return &c.Unread
}

// known is a piece of code.
type known struct {
	blob
	first, last tracefs.Time
	codes       map[uint64]*code // by return address
}

// code is what a return address in a piece of code is.
type code struct {
	function *filemap.Code // nil if it has no name
	calls    bool
}

// knownMethod is a method that frames of the interpreter have had.
type knownMethod struct {
	method
	first, last tracefs.Time
}

// Open reads where the data of a virtual machine is. errors.Is(err, ErrVersion) is for one
// that is not known. now is the time by the clock of the stacks.
func Open(m Memory, s Symbols, names *Names, count *Counts, now func() tracefs.Time) (*Machine, error) {
	b := &budget{mem: m, now: now, left: maxUnits, filled: now()}
	l, err := readLayout(b, s)
	if err != nil {
		return nil, err
	}
	x := &Machine{mem: b, now: now, l: l, names: names, count: count, kinds: make(map[uint64]kind),
		blobs: make(map[uint64]*known), methods: make(map[uint64]*knownMethod)}
	if x.interpreter[0], x.interpreter[1], err = l.readInterpreter(b); err != nil {
		return nil, err
	}
	if x.callStub, err = word(b, l.callStubReturn); err != nil {
		return nil, err
	}
	x.opened = now()
	return x, x.scan()
}

const (
	// restLeast is the time between two scans. They take one part in scanShare of what may
	// be read.
	restLeast, scanShare = tracefs.Time(5 * time.Millisecond), 4
	// restUnused is the time between two scans if no stack was of the machine's code for
	// as long as unused.
	restUnused, unused = tracefs.Time(50 * time.Millisecond), tracefs.Time(time.Second)
)

// Look looks for new code, now and then. An error is for memory that cannot be read, as of a
// process that has ended.
func (x *Machine) Look() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	rest := x.rest
	if now-x.used > unused {
		rest = max(rest, restUnused)
	}
	if now < x.scanned+rest {
		return nil
	}
	return x.scan()
}

// scan finds the pieces of code that have come, and forgets those that have gone.
func (x *Machine) scan() error {
	began, before := x.now(), x.mem.used
	defer func() {
		x.scanned = x.now()
		x.rest = max(restLeast, tracefs.Time(x.mem.used-before)*scanShare*tracefs.Time(time.Second)/perSecond)
	}()
	heaps, err := x.l.readHeaps(x.mem)
	if err != nil {
		return err
	}
	x.heaps = heaps
	var starts, fresh []uint64
	for i := range heaps {
		if starts, err = heaps[i].begins(x.mem, starts); err != nil {
			return err
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	for _, block := range starts {
		if x.blobs[block] == nil {
			fresh = append(fresh, block)
		}
	}
	err = x.readBlobs(fresh, func(o blob) { x.blobs[o.block] = &known{blob: o} })
	done := x.now()
	for _, block := range fresh {
		if k := x.blobs[block]; k != nil {
			k.first, k.last = done, began
		}
	}
	x.forget(starts)
	return errors.Join(err, x.again())
}

// again reads some of the known code anew, one piece after the other: there may be other
// code by now.
func (x *Machine) again() error {
	const many = 128
	if x.turn >= len(x.starts) {
		x.turn = 0
	}
	blocks := x.starts[x.turn:min(x.turn+many, len(x.starts))]
	x.turn += len(blocks)
	began := x.now()
	var fresh []*known
	err := x.readBlobs(blocks, func(o blob) {
		switch k := x.blobs[o.block]; {
		case k == nil:
		case k.blob == o:
			k.last = max(k.last, began)
		default:
			*k = known{blob: o, last: began}
			fresh = append(fresh, k)
		}
	})
	done := x.now()
	for _, k := range fresh {
		k.first = done
	}
	return err
}

// forget forgets code that does not begin at one of these addresses.
func (x *Machine) forget(starts []uint64) {
	for block := range x.blobs {
		if _, ok := slices.BinarySearch(starts, block); !ok {
			delete(x.blobs, block)
		}
	}
	x.starts = slices.DeleteFunc(starts, func(block uint64) bool { return x.blobs[block] == nil })
}

// state is whether what was read of something is true of a time.
type state uint8

const (
	proven  state = iota
	fresh         // it was not known before
	changed       // it was something else
	unread        // it cannot be read
)

// find returns the piece of code whose memory an address is in, nil if none is known there.
// The address may not be in its code, and it may be other code by now.
func (x *Machine) find(pc uint64) *known {
	i, ok := slices.BinarySearch(x.starts, pc)
	if !ok {
		i--
	}
	if i < 0 {
		return nil
	}
	return x.blobs[x.starts[i]]
}

// has reports whether an address is in the code of a blob.
func (o *blob) has(pc uint64) bool { return pc >= o.code[0] && pc < o.code[1] }

// prove reports whether a piece of code was the same between two times.
func (x *Machine) prove(k *known, from, to tracefs.Time) state {
	if k.last < to {
		began := x.now()
		o, ok, err := x.readBlob(k.block)
		if err != nil {
			return unread
		}
		if !ok {
			delete(x.blobs, k.block)
			x.starts = slices.DeleteFunc(x.starts, func(block uint64) bool { return block == k.block })
			return changed
		}
		if o != k.blob {
			*k = known{blob: o, first: x.now(), last: began}
			return changed
		}
		k.last = began
	}
	if from < k.first {
		return fresh
	}
	return proven
}

// maxMethods bounds the methods that are kept.
const maxMethods = 1 << 15

// method returns the method at an address, and whether it was the same between two times;
// nil if there is none.
func (x *Machine) method(addr uint64, from, to tracefs.Time) (*knownMethod, state) {
	k := x.methods[addr]
	if k != nil && k.last >= to {
		if from < k.first {
			return k, fresh
		}
		return k, proven
	}
	began := x.now()
	m, err := x.l.readMethod(x.mem, addr)
	switch {
	case err != nil:
		return nil, unread
	case k == nil:
		if len(x.methods) >= maxMethods {
			clear(x.methods)
		}
		k = &knownMethod{m, x.now(), began}
		x.methods[addr] = k
		return k, fresh
	case k.method != m:
		*k = knownMethod{m, x.now(), began}
		return k, changed
	}
	k.last = began
	if from < k.first {
		return k, fresh
	}
	return k, proven
}

// maxPlaces bounds the return addresses of a piece of code that are kept.
const maxPlaces = 1 << 12

// codeAt returns what a return address in a piece of code is, which is proven until a time;
// nil if that cannot be read, or the code is not there any more.
func (x *Machine) codeAt(k *known, pc uint64) *code {
	if c := k.codes[pc]; c != nil {
		return c
	}
	c := x.readCode(&k.blob, pc)
	was := k.blob
	if x.prove(k, k.first, x.now()) != proven || k.blob != was {
		return nil // what was read may be of other code
	}
	if k.codes == nil || len(k.codes) >= maxPlaces {
		k.codes = make(map[uint64]*code)
	}
	k.codes[pc] = c
	return c
}

// readCode reads what a return address in a piece of code is.
func (x *Machine) readCode(o *blob, pc uint64) *code {
	if o.kind == compiled {
		if list, err := x.scopes(o, pc); err == nil {
			return &code{x.names.compiled(list), true}
		}
	}
	c := &code{calls: o.kind == other && x.calls(o, pc) || x.callBefore(o, pc)}
	if o.kind == other {
		if name, err := textAt(x.mem, o.name); err == nil && name != "" {
			c.function = x.names.stub(name)
		}
		return c
	}
	// A call of the virtual machine itself, which has no list of what is inlined there.
	if m, err := x.l.readMethod(x.mem, o.nm.method); err == nil {
		c.function = x.names.compiled([]frameMethod{{m.name, -1}})
	}
	return c
}
