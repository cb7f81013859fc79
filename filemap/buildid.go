package filemap

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// BuildIDSize is the room the kernel has for a build ID
// (BUILD_ID_SIZE_MAX in include/linux/buildid.h).
const BuildIDSize = 20

// A BuildID is the identity of an ELF file's contents as the kernel hands it out:
// its bytes in file order, zero filled to BuildIDSize. The length is not
// transmitted, so a short ID (md5: 16 bytes, lld: 8) looks like one that ends in
// zeros. All zeros means that the file has none.
type BuildID [BuildIDSize]byte

// IsZero reports whether there is no build ID.
func (id BuildID) IsZero() bool { return id == BuildID{} }

// Hex returns the ID as readelf -n prints it, "" if there is none.
func (id BuildID) Hex() string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// Words returns the ID as the kernel prints it, without the braces: five
// native-endian (little-endian here) words, "%#x" each, not padded
// (__print_array in include/trace/stages/stage3_trace_output.h).
func (id BuildID) Words() string {
	var b []byte
	for i := 0; i < len(id); i += 4 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "0x"...)
		b = strconv.AppendUint(b, uint64(binary.LittleEndian.Uint32(id[i:])), 16)
	}
	return string(b)
}

// ParseWords reads the elements of a build_id={…} field: five words, or
// twenty bytes, in C notation with commas ("0xc2d9e5b6,0xb211e958,…"), or as
// decimal words with blanks between (trace-cmd report). ok is false if it is
// neither.
func ParseWords(text []byte) (id BuildID, ok bool) {
	fields := bytes.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	bits := 32
	switch len(fields) {
	case BuildIDSize:
		bits = 8
	case BuildIDSize / 4:
	default:
		return id, false
	}
	for i, f := range fields {
		v, err := strconv.ParseUint(string(f), 0, bits)
		if err != nil {
			return BuildID{}, false
		}
		if bits == 8 {
			id[i] = byte(v)
		} else {
			binary.LittleEndian.PutUint32(id[4*i:], uint32(v))
		}
	}
	return id, true
}

// NoFileOffset is the first number that is no offset in a file. BPF gives one for an address that
// is in no mapping: it counts from the beginning of the next one (find_vma in
// stack_map_get_build_id_offset, kernel/bpf/stackmap.c).
const NoFileOffset = 1 << 63
