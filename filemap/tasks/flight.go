package tasks

import (
	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// flight is a call that has been entered and has not returned.
type flight struct {
	tid  int
	pid  int // of the thread, at the entry
	kind Kind
	at   tracefs.Time
	// spans are the addresses at which it can change something, nothing else but for
	// anywhere; of Clone, those that have been touched since its entry.
	spans []span
	// cuts: what was at the spans goes away.
	cuts bool
	// makes: there can be code after it where there was none.
	makes bool
	// anywhere: the kernel chooses the place of what it makes; size is how large that is.
	anywhere bool
	size     uint64
	// old is what mremap moves.
	old span
	// touched: what it changes was known, or had to be asked for, or it met another call.
	touched bool
	// unsafe: there can be code at the spans.
	unsafe bool
	// met: another call that can change the same was under way meanwhile.
	met bool
	// noted: Exec is in the spaces.
	noted bool
}

// maxTouched bounds the spans of a Clone that are kept apart.
const maxTouched = 32

// pages is how the kernel maps addresses: whole pages. The end of the address space is the
// end of all.
func pages(start, size uint64) span {
	page := uint64(unix.Getpagesize())
	end := start + size
	if end < start || end > -page {
		return span{start &^ (page - 1), whole.end}
	}
	return span{start &^ (page - 1), (end + page - 1) &^ (page - 1)}
}

// replaced returns how much mmap takes away at most: of huge pages whole ones.
func replaced(addr, size, flags uint64) uint64 {
	if flags&(unix.MAP_ANONYMOUS|unix.MAP_HUGETLB) == unix.MAP_ANONYMOUS {
		return size
	}
	return procmap.Huge(addr, size)
}

// newFlight returns the call of an event.
func newFlight(e *Event) flight {
	f := flight{tid: e.TID, kind: e.Kind, at: e.Time}
	a := &e.Args
	switch e.Kind {
	case Map:
		const exec, fixed = unix.PROT_EXEC, unix.MAP_FIXED
		f.makes = a[2]&exec != 0
		switch {
		case a[3]&fixed != 0 && a[3]&unix.MAP_FIXED_NOREPLACE != unix.MAP_FIXED_NOREPLACE:
			f.cuts, f.spans = true, []span{pages(a[0], replaced(a[0], a[1], a[3]))}
		case f.makes:
			f.anywhere, f.size = true, a[1]
		}
	case Unmap:
		f.cuts, f.spans = true, []span{pages(procmap.Untagged(a[0]), a[1])}
	case Protect:
		f.makes, f.spans = true, []span{pages(procmap.Untagged(a[0]), a[1])}
	case Page:
		f.cuts, f.makes, f.spans = true, true, []span{pages(a[0], a[1])}
	case Move:
		const fixed = 2 // MREMAP_FIXED
		from := procmap.Untagged(a[0])
		takes := func(size uint64) uint64 { return procmap.Huge(from, size) }
		if a[3]&fixed != 0 {
			takes = func(size uint64) uint64 { return procmap.HugeMove(from, a[4], size) }
		}
		f.old, f.size, f.cuts = pages(from, takes(max(a[1], a[2]))), takes(a[2]), true
		f.spans = []span{f.old}
		if a[3]&fixed != 0 {
			f.spans = append(f.spans, pages(a[4], f.size))
		}
	case Attach:
		const remap = 0x4000 // SHM_REMAP
		f.makes, f.cuts, f.spans = true, a[0]&remap != 0, []span{whole}
	case Detach:
		f.makes, f.spans = true, []span{whole}
	case Exec:
		f.spans = []span{whole}
	}
	return f
}

// overlaps reports whether a call can change something among addresses.
func (f *flight) overlaps(s span) bool {
	if f.kind == Clone {
		return false
	}
	for _, own := range f.spans {
		if own.overlaps(s) {
			return true
		}
	}
	return f.anywhere
}

// meets reports whether two calls can change the same.
func (f *flight) meets(o *flight) bool {
	for _, s := range f.spans {
		if o.overlaps(s) {
			return true
		}
	}
	return f.anywhere && o.kind != Clone
}

// touch adds what another call changes to a Clone.
func (f *flight) touch(o *flight) {
	switch {
	case o.kind == Clone || o.kind == Exec:
	case o.anywhere:
		f.spans = []span{whole}
	default:
		for _, s := range o.spans {
			f.touchSpan(s)
		}
	}
}

func (f *flight) touchSpan(s span) {
	for _, own := range f.spans {
		if own.start <= s.start && s.end <= own.end {
			return
		}
	}
	if len(f.spans) == maxTouched {
		f.spans = []span{whole}
		return
	}
	f.spans = append(f.spans, s)
}

// fails reports whether a result is an error (IS_ERR_VALUE in include/linux/err.h).
func fails(result uint64) bool {
	const maxErrno = 4095
	return int64(result) < 0 && int64(result) >= -maxErrno
}

// unloaded reports whether a result of execve means that the program was not found, which is
// before anything changes. Other errors can come after the memory is gone.
func unloaded(result uint64) bool {
	switch unix.Errno(-result) {
	case unix.ENOENT, unix.EACCES, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG:
		return fails(result)
	}
	return false
}
