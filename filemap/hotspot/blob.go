package hotspot

import (
	"fmt"

	"ustack/filemap/procmem"
)

// blob is the head of a piece of code (CodeBlob, nmethod), but for what changes while it
// exists. Two that are equal, at one address, are one: code of methods has a number of its
// own, other code stays where it is.
type blob struct {
	block, end uint64 // of the memory that it has
	kind       kind
	name       uint64 // where the name of a stub is
	size       int32
	frameSize  int32 // in words, from the stack pointer of a call to that of the caller
	oopMaps    uint64
	code       [2]uint64 // begin and end
	nm         nmethod
}

// nmethod is what a blob has that is compiled code of a method.
type nmethod struct {
	method, scopesData, deopt, deoptMH uint64
	entryBCI, compileID, level, origPC int32
	metadata, scopesPCs, dependencies  int32 // distances from the head
}

// kind is what a blob is of.
type kind uint8

const (
	other    kind = iota // stubs and adapters
	compiled             // a method
	wrapper              // a method that is native: it calls the function
)

// Bounds of blobs.
const (
	maxBlobs = 1 << 18
	maxBlob  = 64 << 20
	maxFrame = 1 << 20 // bytes
)

// head is where the head of a blob is.
func (l *layout) head(block uint64) uint64 { return block + uint64(l.blockSize) }

// headSize is how much of a block is read to know it.
func (l *layout) headSize() int { return l.blockSize + l.nmethodSize }

// readBlobs reads blocks, and calls f for those that are pieces of code.
func (x *Machine) readBlobs(blocks []uint64, f func(blob)) error {
	const many = 256
	for len(blocks) > 0 {
		n := min(many, len(blocks))
		part, size := blocks[:n], x.l.headSize()
		blocks = blocks[n:]
		parts, b := make([]procmem.Part, n), make([]byte, n*size)
		for i, block := range part {
			most := x.endOf(block) - block
			parts[i] = procmem.Part{Addr: block, To: b[i*size:][:min(uint64(size), most)]}
		}
		if err := x.mem.Read(parts...); err != nil {
			return fmt.Errorf("reading the heads of %d pieces of code: %w", n, err)
		}
		for i, block := range part {
			if o, ok := x.parseBlob(block, b[i*size:][:size]); ok {
				f(o)
			}
		}
	}
	return nil
}

// readBlob reads the block at an address; ok is false if it is no code, or about to be
// freed.
func (x *Machine) readBlob(block uint64) (o blob, ok bool, err error) {
	err = x.readBlobs([]uint64{block}, func(found blob) { o, ok = found, true })
	return o, ok, err
}

// endOf returns the end of the heap that an address is in, the address if it is in none.
func (x *Machine) endOf(addr uint64) uint64 {
	for i := range x.heaps {
		if h := &x.heaps[i]; addr >= h.low && addr < h.high {
			return h.high
		}
	}
	return addr
}

// parseBlob reads a block and the head of its code.
func (x *Machine) parseBlob(block uint64, b []byte) (o blob, ok bool) {
	l, heap := x.l, x.heapOf(block)
	length := u64(b, l.blockLength)
	if heap == nil || b[l.blockUsed] == 0 || length == 0 || length > maxBlob>>heap.log2 {
		return o, false
	}
	o = blob{block: block, end: block + length<<heap.log2}
	b = b[l.blockSize:]
	o.size, o.frameSize, o.oopMaps = i32(b, l.blob.size), i32(b, l.blob.frameSize), u64(b, l.blob.oopMaps)
	o.code = [2]uint64{u64(b, l.blob.codeBegin), u64(b, l.blob.codeEnd)}
	from := l.head(block)
	inside := o.size > 0 && uint64(o.size) <= o.end-from && from < o.code[0] && o.code[0] <= o.code[1] && o.code[1] <= o.end
	if o.end > heap.high || !inside || o.frameSize < -1 || o.frameSize > maxFrame/wordSize {
		return o, false
	}
	o.name = u64(b, l.blob.name)
	o.kind = x.kindOf(o.name)
	if o.kind == other {
		return o, true
	}
	if int(i32(b, l.blob.headerSize)) != l.nmethodSize {
		return o, false
	}
	n := &l.nm
	o.nm = nmethod{
		method: u64(b, n.method), scopesData: u64(b, n.scopesData), deopt: u64(b, n.deopt), deoptMH: u64(b, n.deoptMH),
		entryBCI: i32(b, n.entryBCI), compileID: i32(b, n.compileID), level: i32(b, n.level), origPC: i32(b, n.origPC),
		metadata: i32(b, n.metadata), scopesPCs: i32(b, n.scopesPCs), dependencies: i32(b, n.dependencies),
	}
	return o, alive(b[n.state]) && o.nm.fits(from, o.size)
}

// alive reports whether code of a method can run, or still has frames: it is in use or not
// entered any more (nmethod::in_use, not_entrant in nmethod.hpp).
func alive(state byte) bool { return state <= 1 }

// fits reports whether the parts of an nmethod are in its memory, in order.
func (n *nmethod) fits(head uint64, size int32) bool {
	scopes := int64(n.scopesData - head)
	return n.metadata > 0 && int64(n.metadata) <= scopes && scopes <= int64(n.scopesPCs) && n.scopesPCs <= n.dependencies && n.dependencies <= size
}

func (x *Machine) heapOf(addr uint64) *heap {
	for i := range x.heaps {
		if h := &x.heaps[i]; addr >= h.low && addr < h.high {
			return h
		}
	}
	return nil
}

// kindOf returns the kind of a blob by where its name is. The names of code of methods are
// constants of libjvm.so.
func (x *Machine) kindOf(name uint64) kind {
	k, ok := x.kinds[name]
	if ok {
		return k
	}
	const most = 1 << 12
	if len(x.kinds) >= most {
		clear(x.kinds)
	}
	switch s, err := textAt(x.mem, name); {
	case err != nil:
		return other
	case s == "nmethod":
		k = compiled
	case s == "native nmethod":
		k = wrapper
	}
	x.kinds[name] = k
	return k
}
