package hotspot

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"ustack/filemap"
	"ustack/tracefs"
)

// Names has the functions of frames of stacks, from when these are unwound until they are
// attributed. It may be used by several goroutines.
type Names struct {
	mu     sync.Mutex
	codes  map[string]*filemap.Code
	stacks map[stackKey][]Named
	order  []stackKey
}

// stackKey identifies a stack: the kernel takes no two of one thread at one time.
type stackKey struct {
	tid int32
	at  tracefs.Time
}

// Named is a frame that has a function: its number in the stack, and its address.
type Named struct {
	Frame int
	Addr  uint64
	Code  *filemap.Code
}

// NewNames returns Names.
func NewNames() *Names {
	return &Names{codes: make(map[string]*filemap.Code), stacks: make(map[stackKey][]Named)}
}

// Bounds of what is kept.
const (
	maxCodes  = 1 << 16
	maxStacks = 1 << 16
)

// Put keeps the functions of the stack of a thread, until Take. Of too many, the oldest
// have none.
func (n *Names) Put(tid int32, at tracefs.Time, list []Named) {
	if n == nil || len(list) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.order) >= maxStacks {
		for _, key := range n.order[:maxStacks/2] {
			delete(n.stacks, key)
		}
		n.order = slices.Clone(n.order[maxStacks/2:])
	}
	key := stackKey{tid, at}
	n.stacks[key] = list
	n.order = append(n.order, key)
}

// Take returns the functions of the stack of a thread, nil if it has none. They are not
// kept any more.
func (n *Names) Take(tid int32, at tracefs.Time) []Named {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := stackKey{tid, at}
	list, ok := n.stacks[key]
	if ok {
		delete(n.stacks, key)
	}
	if len(n.stacks) == 0 {
		n.order = n.order[:0]
	}
	return list
}

// compiled returns the function of compiled code, in which other methods can be inlined.
func (n *Names) compiled(list []frameMethod) *filemap.Code {
	if len(list) == 0 {
		return nil
	}
	last := list[len(list)-1]
	c := filemap.Code{Function: last.name, Runtime: true, Offset: uint64(max(last.bci, 0))}
	for _, m := range list[:len(list)-1] {
		c.Inlined = append(c.Inlined, m.name)
	}
	return n.one(c)
}

// interpreted returns the function of a frame of the interpreter.
func (n *Names) interpreted(name string, bci int) *filemap.Code {
	return n.one(filemap.Code{Function: name, Runtime: true, Offset: uint64(max(bci, 0))})
}

// stub returns the function of a stub.
func (n *Names) stub(name string) *filemap.Code {
	return n.one(filemap.Code{Function: name, Runtime: true})
}

// one returns the one Code that is equal. There is none without Names.
func (n *Names) one(c filemap.Code) *filemap.Code {
	if n == nil {
		return nil
	}
	key := strconv.FormatUint(c.Offset, 16) + "\x00" + c.Function + "\x00" + strings.Join(c.Inlined, "\x00")
	n.mu.Lock()
	defer n.mu.Unlock()
	if have := n.codes[key]; have != nil {
		return have
	}
	if len(n.codes) >= maxCodes {
		clear(n.codes)
	}
	n.codes[key] = &c
	return &c
}
