// Package elfid reads the GNU build ID of an ELF file: the identity that the
// linker put into it and that the kernel, perf and debuggers use.
package elfid

import "encoding/hex"

// Max is the longest build ID, in bytes (BUILD_ID_SIZE_MAX in
// include/linux/buildid.h).
const Max = 20

// ID is a build ID with its length: 20 bytes are a sha1, 16 an md5 or uuid, 8
// what lld --build-id=fast makes. The zero ID is none. IDs can be compared with
// == and need no allocation.
type ID struct {
	size  uint8
	bytes [Max]byte
}

// New returns the ID of these bytes. ok is false if there are none, or more
// than Max.
func New(b []byte) (id ID, ok bool) {
	if len(b) == 0 || len(b) > Max {
		return ID{}, false
	}
	id.size = uint8(copy(id.bytes[:], b))
	return id, true
}

// Parse reads an ID in hexadecimal, as Hex writes it.
func Parse(text []byte) (id ID, ok bool) {
	var b [Max]byte
	if len(text) > 2*Max {
		return ID{}, false
	}
	n, err := hex.Decode(b[:], text)
	if err != nil {
		return ID{}, false
	}
	return New(b[:n])
}

// IsZero reports whether there is no ID. An ID of zero bytes only is one.
func (id ID) IsZero() bool { return id.size == 0 }

// Len returns the number of bytes, 0 to Max.
func (id ID) Len() int { return int(id.size) }

// Padded returns the ID filled up with zeros, the form in which ftrace and BPF
// hand IDs out (filemap.BuildID); the length is lost.
func (id ID) Padded() [Max]byte { return id.bytes }

// AppendHex appends the bytes in file order as lower-case hexadecimal, nothing
// if there is no ID.
func (id ID) AppendHex(b []byte) []byte { return hex.AppendEncode(b, id.bytes[:id.size]) }

// Hex returns the ID as readelf -n prints it, "" if there is none.
func (id ID) Hex() string { return string(id.AppendHex(nil)) }
