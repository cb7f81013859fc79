package hotspot

import (
	"debug/elf"
	"errors"
	"fmt"
	"sort"

	"ustack/filemap/callsite"
)

// frameMethod is a method of a frame, and where it is in its bytecodes, below 0 if unknown.
type frameMethod struct {
	name string
	bci  int
}

// Bounds of the lists of compiled code.
const (
	maxScopes = 256     // of inlined methods in one place
	maxPCs    = 1 << 20 // bytes of PcDesc
)

// errNoCall: compiled code is not known to call at an address.
var errNoCall = errors.New("the compiler has noted no call there")

// scopes returns the methods of compiled code at a return address, innermost first: those
// that are inlined there, and the one that was compiled.
func (x *Machine) scopes(o *blob, pc uint64) (list []frameMethod, err error) {
	offset, err := x.scopeAt(o, pc)
	if err != nil {
		return nil, err
	}
	head := x.l.head(o.block)
	size := head + uint64(o.nm.scopesPCs) - o.nm.scopesData
	for offset != 0 {
		if offset < 0 || uint64(offset) >= size || len(list) >= maxScopes {
			return nil, fmt.Errorf("the list of inlined methods: %w", errBounds)
		}
		const most = 3 * longestNumber
		b, err := at(x.mem, o.nm.scopesData+uint64(offset), int(min(most, size-uint64(offset))))
		if err != nil {
			return nil, err
		}
		s := numbers{b: b}
		sender, index, bci := s.next(), s.next(), s.next()-1 // InvocationEntryBci is -1
		if s.bad || sender >= offset && sender != 0 {
			return nil, fmt.Errorf("the list of inlined methods: %w", errBounds)
		}
		name, err := x.metadata(o, index)
		if err != nil {
			return nil, err
		}
		list = append(list, frameMethod{name, bci})
		offset = sender
	}
	return list, nil
}

// metadata returns the name of the method that has a number in a list of compiled code.
func (x *Machine) metadata(o *blob, index int) (string, error) {
	from := x.l.head(o.block) + uint64(o.nm.metadata)
	if n := int((o.nm.scopesData - from) / wordSize); index < 1 || index > n {
		return "", fmt.Errorf("method %d of %d: %w", index, n, errBounds)
	}
	addr, err := word(x.mem, from+uint64(index-1)*wordSize)
	if err != nil {
		return "", err
	}
	m, err := x.l.readMethod(x.mem, addr)
	return m.name, err
}

// scopeAt returns where the methods of a return address are in the list.
func (x *Machine) scopeAt(o *blob, pc uint64) (offset int, err error) {
	head := x.l.head(o.block)
	n := int(o.nm.dependencies-o.nm.scopesPCs) / x.l.pcSize
	if n == 0 || n*x.l.pcSize > maxPCs {
		return 0, errNoCall
	}
	b, err := at(x.mem, head+uint64(o.nm.scopesPCs), n*x.l.pcSize)
	if err != nil {
		return 0, err
	}
	want := int64(pc - o.code[0])
	off := func(i int) int64 { return int64(i32(b, i*x.l.pcSize+x.l.pcOffset)) }
	i := sort.Search(n, func(i int) bool { return off(i) >= want })
	if i == n || off(i) != want {
		return 0, errNoCall
	}
	return int(i32(b, i*x.l.pcSize+x.l.pcScope)), nil
}

// calls reports whether code that is no compiled method calls at a return address: where it
// does, it has a map of what is on the stack.
func (x *Machine) calls(o *blob, pc uint64) bool {
	if o.oopMaps == 0 {
		return false
	}
	b, err := at(x.mem, o.oopMaps, x.l.mapSetSize)
	if err != nil {
		return false
	}
	const most = 1 << 12
	n := int(i32(b, x.l.mapCount))
	if n < 1 || n > most {
		return false
	}
	size := x.l.mapPairSize
	if b, err = at(x.mem, o.oopMaps+uint64(x.l.mapSetSize), n*size); err != nil {
		return false
	}
	for i := range n {
		if uint64(u32(b, i*size+x.l.mapPC)) == pc-o.code[0] {
			return true
		}
	}
	return false
}

// callBefore reports whether an instruction that calls stands before a return address.
func (x *Machine) callBefore(o *blob, pc uint64) bool {
	if pc < o.code[0]+callsite.Longest || pc > o.code[1] {
		return false
	}
	b, err := at(x.mem, pc-callsite.Longest, callsite.Longest)
	return err == nil && callsite.Ends(elf.EM_X86_64, b)
}

// numbers reads numbers of one to five bytes: all but the last are 192 or more, and each is
// worth 64 times as much as the one before (CompressedStream).
type numbers struct {
	b   []byte
	bad bool
}

const longestNumber = 5

func (s *numbers) next() int {
	const low, bits = 192, 6
	sum := uint32(0)
	for i := range longestNumber {
		if i == len(s.b) {
			break
		}
		c := s.b[i]
		sum += uint32(c) << (bits * i)
		if c < low || i == longestNumber-1 {
			s.b = s.b[i+1:]
			return int(int32(sum))
		}
	}
	s.bad = true
	return 0
}
