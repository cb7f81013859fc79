package procmap

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	textRoom = 64 << 10
	// maxLine bounds a line. The kernel has no bound: directories can be
	// nested until a path has megabytes.
	maxLine = 1 << 20
)

// readText reads the lines of an open /proc/PID/maps, all of them unless fn
// returns false, and returns errMemoryGone if there are none. Lines that are no
// mappings are left out.
func (r *Reader) readText(fd int, fn func(m *Mapping) bool) error {
	if r.text == nil {
		r.text = make([]byte, textRoom)
	}
	have, empty := 0, true
	skip := false // in the rest of a line that was too long
	for {
		n, err := readFD(fd, r.text[have:])
		if err == unix.ESRCH {
			return errMemoryGone
		}
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		empty = false
		have += n
		rest, more := r.lines(r.text[:have], &skip, fn)
		if !more {
			return nil
		}
		have = copy(r.text, rest)
		if have == len(r.text) {
			have = r.longLine(have, &skip, fn)
		}
	}
	if empty || !r.stillThere(fd) {
		return errMemoryGone
	}
	return nil
}

// lines parses the whole lines of b and returns the rest, and false if fn did.
func (r *Reader) lines(b []byte, skip *bool, fn func(m *Mapping) bool) ([]byte, bool) {
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return b, true
		}
		line := b[:end]
		b = b[end+1:]
		if *skip {
			*skip = false
			continue
		}
		if !r.line(line, false, fn) {
			return nil, false
		}
	}
}

// line parses a line and calls fn. A name that is cut is left out: a part of it would be
// another file's.
func (r *Reader) line(line []byte, cut bool, fn func(m *Mapping) bool) bool {
	m := &r.scratch
	*m = Mapping{}
	name, err := m.parse(line)
	if err != nil {
		return true
	}
	if cut {
		name = nil
	}
	m.Name = r.names.Intern(unescape(name))
	m.Kind = Classify(m.Name, m.Dev, m.Inode)
	return fn(m)
}

// longLine makes room for a line that fills the buffer. Beyond maxLine the
// mapping has no name.
func (r *Reader) longLine(have int, skip *bool, fn func(m *Mapping) bool) int {
	if have < maxLine {
		r.text = append(r.text, make([]byte, len(r.text))...)
		return have
	}
	if !*skip {
		r.line(r.text[:have], true, fn)
	}
	*skip = true
	return 0
}

// stillThere reports whether the memory was there until the end of its text:
// when it goes, the kernel ends the text as if that were all.
func (r *Reader) stillThere(fd int) bool {
	var b [1]byte
	n, err := unix.Pread(fd, b[:], 0)
	return n > 0 || err == unix.EINTR
}

// eachText is each by text.
func (h *Handle) eachText(fn func(m *Mapping) bool) error {
	return h.lookText(func(m *Mapping) bool {
		if !h.r.opt.Filter.match(m) {
			return true
		}
		h.settleName(m)
		h.identify(m)
		return fn(m)
	})
}

// settleName finds out whether \012 in the name of a mapping is a line feed, by its link
// in map_files. Without the right to read that it stays one.
func (h *Handle) settleName(m *Mapping) {
	if strings.IndexByte(m.Name, '\n') < 0 {
		return
	}
	name, err := h.r.waits.look(h.as, "map_files/"+strconv.FormatUint(m.Start, 16)+"-"+strconv.FormatUint(m.End, 16), true)
	if err == nil && string(unescape(name)) == m.Name {
		m.Name = h.r.names.Intern(name)
	}
}

// findText is find by text.
func (h *Handle) findText(addr, next uint64, m *Mapping) (bool, error) {
	found := false
	err := h.lookText(func(t *Mapping) bool {
		switch {
		case t.End <= addr || next != 0 && !h.r.opt.Filter.match(t):
			return true
		case t.Start <= addr || next != 0:
			*m, found = *t, h.r.opt.Filter.match(t)
		}
		return false
	})
	if found && err == nil {
		h.settleName(m)
		h.identify(m)
	}
	return found, err
}

// lookText reads the text from its beginning until fn returns false.
func (h *Handle) lookText(fn func(m *Mapping) bool) error {
	if _, err := unix.Seek(h.fd, 0, unix.SEEK_SET); err != nil {
		return err
	}
	return h.r.readText(h.fd, fn)
}
