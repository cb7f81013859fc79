package text

import (
	"bytes"

	"ustack/tracefs"
)

// reportFrame takes a frame as trace-cmd report prints it, "\t=> 0x7f72a36aea48",
// at off in the text; on the first line of a record the event's name stands
// before it. A zero ends the stack: the numbers after it are the rest of a fixed
// array, which kernels do not clear.
func (w *walk) reportFrame(line []byte, off int) bool {
	at := bytes.Index(line, []byte("\t=> "))
	if at < 0 {
		return off == w.o.start // the first line may go without
	}
	text := line[at+len("\t=> "):]
	digits := bytes.TrimPrefix(text, []byte("0x"))
	addr, n := parseHex(digits)
	if n == 0 {
		return false
	}
	if addr == 0 {
		w.o.stack = noFrames
		return true
	}
	f := tracefs.Frame{
		Addr: addr, HasAddr: true, Form: tracefs.FormPlain,
		Off: uint32(off + at), AddrEnd: uint32(off + len(line)), End: uint32(off + len(line)),
	}
	if rest := digits[n:]; hasPrefix(rest, UnresolvedMark) && rest[len(rest)-1] == ')' {
		f.Form = tracefs.FormUnresolved
		f.AddrEnd -= uint32(len(rest))
	}
	w.b.Frames = append(w.b.Frames, f)
	return true
}

// arrayFrames takes the frames of a deferred stack as trace-cmd report prints
// a record that it does not know, field by field and byte by byte:
//
//	[FAILED TO PARSE] cookie=38169374359555 stack=ARRAY[33, c3, 06, 00, …] hash=ARRAY[0f, 61, 57, a2]
//
// Identifiers are hash (u32 each), or inodes (u64) and dev (u32), or none.
// The frames have no text; they stand at the end of the line.
func (w *walk) arrayFrames(body []byte, end int) bool {
	addrs, ok := arrayField(body, "stack=ARRAY[", 8)
	if !ok {
		return false
	}
	hashes, hashed := arrayField(body, "hash=ARRAY[", 4)
	inodes, _ := arrayField(body, "inodes=ARRAY[", 8)
	devs, inoded := arrayField(body, "dev=ARRAY[", 4)
	if hashed && len(hashes) != len(addrs) || inoded && (len(inodes) != len(addrs) || len(devs) != len(addrs)) {
		return false
	}
	for k, addr := range addrs {
		f := tracefs.Frame{Addr: addr, HasAddr: true, Form: tracefs.FormPlain,
			Off: uint32(end), AddrEnd: uint32(end), End: uint32(end)}
		switch {
		case hashed:
			f.Form, f.ID = tracefs.FormIdentifier, tracefs.HashIdentifier(hashes[k])
		case inoded:
			const minorBits = 20 // of a dev_t in the kernel
			f.Form = tracefs.FormIdentifier
			f.ID = tracefs.InodeIdentifier(inodes[k], uint32(devs[k]>>minorBits), uint32(devs[k]&(1<<minorBits-1)))
		}
		w.b.Frames = append(w.b.Frames, f)
	}
	return true
}

// arrayField reads a field of little-endian numbers, size bytes each.
func arrayField(body []byte, key string, size int) ([]uint64, bool) {
	at := bytes.Index(body, []byte(key))
	if at < 0 {
		return nil, false
	}
	text, _, ok := bytes.Cut(body[at+len(key):], []byte("]"))
	if !ok {
		return nil, false
	}
	var out []uint64
	var v uint64
	n := 0
	for _, word := range bytes.Split(text, []byte(", ")) {
		b, digits := parseHex(word)
		if digits == 0 || digits != len(word) || b > 0xff {
			return nil, false
		}
		v |= b << (8 * n)
		if n++; n == size {
			out = append(out, v)
			v, n = 0, 0
		}
	}
	return out, n == 0
}
