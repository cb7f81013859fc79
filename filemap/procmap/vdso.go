package procmap

import (
	"bytes"
	"os"

	"ustack/filemap/procmem"
)

// A program of 64 bits can take its vDSO away and map the one of 32-bit programs, above
// 4 GiB (ARCH_MAP_VDSO_32, man 2 arch_prctl), which has other functions at the same
// offsets. The kernel calls both [vdso].

// vdsoHead is how much of a vDSO is compared: a page has the ELF header, the symbol table
// and the build ID, and is never written.
const vdsoHead = 4 << 10

// checkVDSO has a vDSO that is not the one of 64-bit programs, or cannot be read, be other
// memory of the kernel's. The one of 32-bit programs, below 4 GiB, is known by its place.
func (h *Handle) checkVDSO(m *Mapping) {
	if !h.r.opt.VDSO || m.Kind != VDSO || m.End <= 1<<32 {
		return
	}
	v := &h.r.vdso
	v.once(h.r)
	if len(v.own) == 0 || h.r.memory.Read(h.as, procmem.Part{Addr: m.Start, To: v.its}) != nil || !bytes.Equal(v.own, v.its) {
		m.Kind = Special
	}
}

// vdso is the beginning of the vDSO of this process, empty if it cannot be read, and room
// for that of another one.
type vdso struct {
	looked   bool
	own, its []byte
}

// once reads the vDSO of this process.
func (v *vdso) once(r *Reader) {
	if v.looked {
		return
	}
	v.looked = true
	fd, err := r.open("self/maps")
	if err != nil {
		return
	}
	defer closeFD(fd)
	own := make([]byte, vdsoHead)
	err = scanText(fd, func(m *Mapping) bool {
		if m.Kind == VDSO && r.memory.Read(os.Getpid(), procmem.Part{Addr: m.Start, To: own}) == nil {
			v.own, v.its = own, make([]byte, vdsoHead)
		}
		return true
	})
	if err != nil {
		v.own = nil
	}
}

// otherVDSO is the line of a dump that says that the mapping before it is of another vDSO
// than that of 64-bit programs.
const otherVDSO = "# vdso=other"

// AppendOtherVDSO appends this line, with its line feed, if a mapping is one.
func (m *Mapping) AppendOtherVDSO(b []byte) []byte {
	if m.Kind == Special && m.Name == "[vdso]" {
		b = append(b, otherVDSO+"\n"...)
	}
	return b
}

// IsOtherVDSO reports whether a line of a dump is this one.
func IsOtherVDSO(line []byte) bool { return string(bytes.TrimSuffix(line, []byte("\n"))) == otherVDSO }
