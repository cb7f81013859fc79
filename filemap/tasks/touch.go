package tasks

import (
	"bytes"
	"math"
	"strconv"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// touched is where a process has mapped code of files since it was read. There a
// file may have gone and come back, with another one in between, which by what
// was mapped before and after looks as if nothing had happened.
type touched struct {
	spans []span
	// chosen is the length of the longest mapping for which the kernel has
	// chosen the place.
	chosen uint64
}

type span struct{ start, end uint64 }

// maxSpans bounds the spans that are kept apart.
const maxSpans = 256

// everywhere is a length that nothing is longer than.
const everywhere = math.MaxUint64

// add notes the entry to mmap or mprotect. Memory that has no file is of no
// concern: for a file to come back, it must be mapped.
func (t *touched) add(body []byte) {
	if bytes.HasPrefix(body, []byte("sys_mremap(")) {
		t.moved(body)
		return
	}
	protect := bytes.HasPrefix(body, []byte("sys_mprotect("))
	name := "addr: "
	if protect {
		name = "start: "
	}
	start, ok1 := argument(body, name)
	length, ok2 := argument(body, "len: ")
	flags, ok3 := argument(body, "flags: ")
	switch {
	case !ok1 || !ok2 || !ok3 && !protect || start+length < start:
		t.chosen = everywhere
	case !protect && flags&unix.MAP_ANONYMOUS != 0:
	case !protect && flags&(unix.MAP_FIXED|unix.MAP_FIXED_NOREPLACE) == 0:
		t.chosen = max(t.chosen, pages(length))
	default:
		t.span(start, max(start, start+pages(length)))
	}
}

// moved notes the entry to mremap with MREMAP_FIXED: there is another mapping at
// the new place, and none at the old one.
func (t *touched) moved(body []byte) {
	from, ok1 := argument(body, "addr: ")
	size, ok2 := argument(body, "old_len: ")
	grown, ok3 := argument(body, "new_len: ")
	to, ok4 := argument(body, "new_addr: ")
	if !ok1 || !ok2 || !ok3 || !ok4 {
		t.chosen = everywhere
		return
	}
	t.span(from, max(from, from+pages(size)))
	t.span(to, max(to, to+pages(grown)))
}

func (t *touched) span(start, end uint64) {
	for _, s := range t.spans {
		if s.start <= start && end <= s.end {
			return
		}
	}
	if len(t.spans) == maxSpans {
		t.chosen = everywhere
		return
	}
	t.spans = append(t.spans, span{start, end})
}

// pages returns a length as the kernel maps it: whole pages.
func pages(n uint64) uint64 {
	page := uint64(unix.Getpagesize())
	if n > math.MaxUint64-page {
		return everywhere
	}
	return (n + page - 1) &^ (page - 1)
}

// may reports whether a mapping may have been made anew.
func (t *touched) may(m *procmap.Mapping) bool {
	if m.End-m.Start <= t.chosen {
		return true
	}
	for _, s := range t.spans {
		if s.start < m.End && m.Start < s.end {
			return true
		}
	}
	return false
}

// argument reads a number of an event of a system call: hexadecimal, since Linux
// 6.18 with 0x before it.
func argument(body []byte, name string) (uint64, bool) {
	i := bytes.Index(body, []byte(name))
	if i < 0 {
		return 0, false
	}
	word := bytes.TrimPrefix(body[i+len(name):], []byte("0x"))
	if end := bytes.IndexAny(word, ",) "); end >= 0 {
		word = word[:end]
	}
	v, err := strconv.ParseUint(string(word), 16, 64)
	return v, err == nil
}
