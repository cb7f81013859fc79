package stackmap

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Counts are how often stacks were counted, by stack ID.
type Counts map[uint32]uint64

// maxCounts bounds the memory for counts: a stack map has as many stacks at most as its
// max_entries says, mostly some thousands.
const maxCounts = 1 << 22

// ReadCounts adds up the values of a map by stack ID. It is at a byte of the keys, and other
// parts of keys, such as a process, do not matter; with a negative number it is the whole
// key. A value is a number of 4 or 8 bytes. The values of CPUs are added up, too.
func ReadCounts(in Elements, at int) (Counts, error) {
	counts := make(Counts)
	for {
		e, err := in.Next()
		if err == io.EOF {
			return counts, nil
		}
		if err != nil {
			return nil, err
		}
		if at < 0 && len(e.Key) != idSize {
			return nil, fmt.Errorf("%w: keys of %d bytes, where a stack ID has %d (--weights-key N: it is at byte N of them)", ErrFormat, len(e.Key), idSize)
		}
		id, err := stackID(e.Key, max(at, 0))
		if err != nil {
			return nil, err
		}
		if _, known := counts[id]; !known && len(counts) == maxCounts {
			return nil, fmt.Errorf("%w: counts of more than %d stacks", ErrFormat, maxCounts)
		}
		for _, v := range e.Values {
			n, err := number(v)
			if err != nil {
				return nil, err
			}
			if counts[id] += n; counts[id] < n {
				counts[id] = math.MaxUint64
			}
		}
	}
}

func number(value []byte) (uint64, error) {
	switch len(value) {
	case 4:
		return uint64(binary.NativeEndian.Uint32(value)), nil
	case 8:
		return binary.NativeEndian.Uint64(value), nil
	}
	return 0, fmt.Errorf("%w: a value of %d bytes, where a count has 4 or 8", ErrFormat, len(value))
}
