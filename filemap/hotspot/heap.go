package hotspot

import "fmt"

// heap is a part of the code cache. Each block begins at a segment; the map has a byte for
// each segment, 0 where a block begins (src/hotspot/share/memory/heap.hpp).
type heap struct {
	low, high uint64 // of what can have code now
	segmap    uint64
	log2      uint // of the size of a segment
}

// Bounds of the code cache: three parts, 2 GB together (CODE_CACHE_SIZE_LIMIT), 64 bytes
// for the smallest segment.
const (
	maxHeaps         = 16
	maxHeap          = 2 << 30
	minLog2, maxLog2 = 6, 12
)

// readHeaps reads where the parts of the code cache are now.
func (l *layout) readHeaps(m Memory) ([]heap, error) {
	list, err := word(m, l.codeHeaps)
	if err != nil {
		return nil, err
	}
	b, err := at(m, list, l.listSize)
	if err != nil {
		return nil, err
	}
	n, data := i32(b, l.listLength), u64(b, l.listData)
	if n < 1 || n > maxHeaps {
		return nil, fmt.Errorf("%d parts of the code cache: %w", n, errBounds)
	}
	if b, err = at(m, data, int(n)*wordSize); err != nil {
		return nil, err
	}
	heaps := make([]heap, n)
	for i := range heaps {
		if heaps[i], err = l.readHeap(m, u64(b, i*wordSize)); err != nil {
			return nil, err
		}
	}
	return heaps, nil
}

func (l *layout) readHeap(m Memory, addr uint64) (h heap, err error) {
	b, err := at(m, addr, l.heapSize)
	if err != nil {
		return h, err
	}
	h = heap{
		low: u64(b, l.heapMemory+l.spaceLow), high: u64(b, l.heapMemory+l.spaceHigh),
		segmap: u64(b, l.heapSegmap+l.spaceLow), log2: uint(u32(b, l.heapLog2)),
	}
	if h.low < lowest || h.high < h.low || h.high-h.low > maxHeap || h.high >= highest || h.log2 < minLog2 || h.log2 > maxLog2 {
		return h, fmt.Errorf("a part of the code cache at %#x: %w", h.low, errBounds)
	}
	return h, nil
}

// begins returns the addresses of the blocks of a heap, in order.
func (h *heap) begins(m Memory, out []uint64) ([]uint64, error) {
	n := int((h.high - h.low) >> h.log2)
	if n == 0 {
		return out, nil
	}
	b, err := at(m, h.segmap, n)
	if err != nil {
		return out, err
	}
	for i, c := range b {
		if c != 0 {
			continue
		}
		if len(out) >= maxBlobs {
			return out, fmt.Errorf("more than %d pieces of code: %w", maxBlobs, errBounds)
		}
		out = append(out, h.low+uint64(i)<<h.log2)
	}
	return out, nil
}

// interpreter reads where the interpreter's code is.
func (l *layout) readInterpreter(m Memory) (from, to uint64, err error) {
	queue, err := word(m, l.interpreter)
	if err != nil {
		return 0, 0, err
	}
	b, err := at(m, queue, l.queueSize)
	if err != nil {
		return 0, 0, err
	}
	const most = 16 << 20
	from, n := u64(b, l.queueBuffer), i32(b, l.queueLimit)
	if from < lowest || from >= highest || n <= 0 || n > most {
		return 0, 0, fmt.Errorf("the interpreter at %#x: %w", from, errBounds)
	}
	return from, from + uint64(n), nil
}
