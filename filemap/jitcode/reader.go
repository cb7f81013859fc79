package jitcode

import (
	"bytes"
	"debug/elf"
	"slices"

	"ustack/filemap/callsite"
	"ustack/filemap/procmem"
	"ustack/filemap/unwind/follow"
	"ustack/filemap/unwind/table"
	"ustack/tracefs/sorting"
)

// Memory reads parts of the memory of a process.
type Memory interface {
	Read(parts ...procmem.Part) error
}

const (
	// chunkSize is how much is read at once: a part of a page, all of which can be read.
	chunkSize = 1 << 10
	// maxChunks bounds what is read for a return address.
	maxChunks = 64
	// maxPieces bounds the runs of code that are compared later, in one call.
	maxPieces = 256
	longest   = 15 // of an instruction, in bytes
)

// reader reads code, and notes what of it was looked at. It implements follow.Code.
type reader struct {
	mem    Memory
	chunks map[uint64][]byte // by address; nil for what cannot be read
	seen   []span
	err    error
}

// span is a run of addresses.
type span struct{ start, end uint64 }

// At implements follow.Code.
func (r *reader) At(addr uint64) []byte { return r.bytes(addr, longest) }

// Begins implements follow.Code: it is not known where functions begin.
func (r *reader) Begins(uint64) bool { return false }

// Complete implements follow.Code.
func (r *reader) Complete() bool { return false }

// Described implements follow.Code: files that the code leads to are followed, too.
func (r *reader) Described(uint64) *table.Rules { return nil }

// bytes returns n bytes from an address on, none if they cannot be read.
func (r *reader) bytes(addr uint64, n int) []byte {
	at := addr &^ (chunkSize - 1)
	if addr > ^uint64(0)-2*chunkSize {
		return nil
	}
	b := r.chunk(at)
	if b == nil {
		return nil
	}
	b = b[addr-at:]
	if len(b) < n {
		next := r.chunk(at + chunkSize)
		b = slices.Concat(b, next[:min(n-len(b), len(next))])
	}
	b = b[:min(n, len(b))]
	r.seen = append(r.seen, span{addr, addr + uint64(len(b))})
	return b
}

// chunk returns the code at a multiple of chunkSize, nil if it cannot be read.
func (r *reader) chunk(at uint64) []byte {
	if b, ok := r.chunks[at]; ok {
		return b
	}
	if len(r.chunks) >= maxChunks || r.err != nil {
		return nil
	}
	b := make([]byte, chunkSize)
	if err := r.mem.Read(procmem.Part{Addr: at, To: b}); err != nil {
		b = nil
		if isBusy(err) {
			r.err = err
		}
	}
	r.chunks[at] = b
	return b
}

// pieces returns all that was looked at.
func (r *reader) pieces() (list []procmem.Part) {
	sorting.Func(r.seen, func(a, b span) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	var runs []span
	for _, s := range r.seen {
		if n := len(runs); n > 0 && s.start <= runs[n-1].end {
			runs[n-1].end = max(runs[n-1].end, s.end)
		} else {
			runs = append(runs, s)
		}
	}
	for _, s := range runs {
		for s.start < s.end { // chunk by chunk, as it was read
			at := s.start &^ (chunkSize - 1)
			end := min(s.end, at+chunkSize)
			list = append(list, procmem.Part{Addr: s.start, To: bytes.Clone(r.chunks[at][s.start-at : end-at])})
			s.start = end
		}
	}
	return list
}

// examine reports whether an address is a return address, whose function returns from the
// frame that the frame pointer points to, and the code that shows it. spent is how many
// instructions were followed.
func examine(mem Memory, pc uint64, most int) (framed bool, code []procmem.Part, spent int, err error) {
	r := &reader{mem: mem, chunks: make(map[uint64][]byte)}
	if pc < callsite.Longest {
		return false, nil, 0, nil
	}
	if callsite.Ends(elf.EM_X86_64, r.bytes(pc-callsite.Longest, callsite.Longest)) {
		framed, spent = follow.Framed(r, pc, most)
	}
	code = r.pieces()
	if len(code) > maxPieces {
		framed, code = false, code[:maxPieces]
	}
	return framed, code, spent, r.err
}
