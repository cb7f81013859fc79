package whole

import (
	"errors"
	"time"

	"ustack/filemap/bounded"
	"ustack/filemap/procmem"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// Holes are pages of stacks that copies end at, as they are not in memory: the kernel takes a
// copy where it cannot wait for a page (perf_output_sample_ustack in kernel/events/core.c,
// copy_from_user_nofault in mm/maccess.c, which BPF uses).
// A buffer that its function has not used leaves such pages for as long as the thread runs.
// Reading one has the kernel map the page of zeros there, or bring the page back from swap:
// the next copy goes on after it. What is read is not used: it is of another time.
type Holes struct {
	memory *procmem.Reader // nil for none
	tried  map[hole]tracefs.Time
	reads  int // that are left of the second that began at filled
	filled tracefs.Time
}

// NewHoles returns Holes of which none is known. A memory of nil has none.
func NewHoles(memory *procmem.Reader) *Holes { return &Holes{memory: memory} }

// hole is a page of a process.
type hole struct {
	pid  int
	page uint64
}

const (
	// maxHoles bounds the pages that are remembered, holeReads the readings a second, of some
	// 10 us each.
	maxHoles, holeReads = 1 << 12, 1000
	// holeAgain is how long a page is not read again: it may be one that cannot be.
	holeAgain = tracefs.Time(time.Second)
	pageSize  = 4096 // or a part of one
)

// Fill reads what a copy of a process's stack, so many bytes from a stack pointer on, does not
// have after the page at which it has ended. now is a time of any one clock.
func (h *Holes) Fill(pid int, sp uint64, copied int, now tracefs.Time) {
	key := hole{pid, (sp + uint64(copied)) / pageSize}
	if h.memory == nil || !h.may(key, now) {
		return
	}
	var parts []procmem.Part
	for page := key.page; page <= (sp+perf.MaxStack)/pageSize; page++ {
		parts = append(parts, procmem.Part{Addr: page * pageSize, To: make([]byte, 1)})
	}
	// The kernel reads the pages in order, up to one that cannot be read.
	if err := h.memory.Read(pid, parts...); errors.Is(err, bounded.ErrSlow) {
		h.reads = 0
	}
}

// may reports whether a page may be read now, and notes that it is.
func (h *Holes) may(key hole, now tracefs.Time) bool {
	if now-h.filled >= tracefs.Time(time.Second) {
		h.reads, h.filled = holeReads, now
	}
	if t, ok := h.tried[key]; h.reads <= 0 || ok && now-t < holeAgain {
		return false
	}
	if h.tried == nil || len(h.tried) >= maxHoles {
		h.tried = make(map[hole]tracefs.Time)
	}
	h.tried[key] = now
	h.reads--
	return true
}
