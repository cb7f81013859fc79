package stackmap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ustack/tracefs/text"
)

// ErrFormat is wrapped by all errors about the contents of a map.
var ErrFormat = errors.New("not a BPF map that can be used")

// Element is an element of a map, in the byte order of this machine. A map that has a value
// for each CPU has several.
type Element struct {
	Key    []byte
	Values [][]byte
}

// Elements gives the elements of a map one by one, and io.EOF after the last one. An element
// is valid until the next call. Gone is how many were left out so far, as they had gone when
// their values were read.
type Elements interface {
	Next() (*Element, error)
	Gone() int64
}

// Entries of a value of a stack map (struct bpf_stack_build_id and enum
// bpf_stack_build_id_status in include/uapi/linux/bpf.h).
const (
	entrySize = 32

	statusEmpty = 0 // the end
	statusValid = 1
	statusIP    = 2 // no build ID was found
)

// decode appends the frames of a value, which ends with the first empty entry.
func decode(frames []text.MapFrame, value []byte) ([]text.MapFrame, error) {
	if len(value) == 0 || len(value)%entrySize != 0 {
		return frames, fmt.Errorf("%w: a value of %d bytes, of entries of %d (a stack map without BPF_F_STACK_BUILD_ID?)", ErrFormat, len(value), entrySize)
	}
	for ; len(value) > 0; value = value[entrySize:] {
		f := text.MapFrame{Value: binary.NativeEndian.Uint64(value[entrySize-8:])}
		switch status := binary.NativeEndian.Uint32(value); status {
		case statusEmpty:
			return frames, nil
		case statusValid:
			copy(f.BuildID[:], value[4:])
		case statusIP:
			f.IsAddress = true
		default:
			return frames, fmt.Errorf("%w: an entry with status %d (a stack map without BPF_F_STACK_BUILD_ID?)", ErrFormat, status)
		}
		frames = append(frames, f)
	}
	return frames, nil
}
