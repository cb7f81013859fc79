package procmap

import "golang.org/x/sys/unix"

// Handle is the open memory of a process: of what the process was when it was
// opened. After the process has executed another program, or ended, it answers
// with ErrGone.
type Handle struct {
	r   *Reader
	pid int
	as  int // the thread by which the memory was opened
	fd  int
}

// Open opens the memory of a process, for queries about several addresses. It
// uses the Reader's memory, so it is for the same goroutine.
func (r *Reader) Open(pid int) (*Handle, error) {
	tid := pid
	if heir, ok := r.heir(pid); ok {
		tid = heir
	}
	h, err := r.openAs(pid, tid)
	if err != nil {
		return nil, &processError{pid, err}
	}
	return &h, nil
}

// openAs opens the memory of a process by one of its threads.
func (r *Reader) openAs(pid, tid int) (Handle, error) {
	fd, err := r.waits.openMaps(tid)
	if err == unix.ENOENT || err == unix.ESRCH {
		err = ErrGone // before, or while, its directory was opened
	}
	h := Handle{r: r, pid: pid, as: tid, fd: fd}
	if err == nil && tid != pid {
		if owner, err := r.ThreadGroup(tid); err != nil || owner != pid {
			h.Close()
			return h, ErrGone // the thread has, and its number may be another one's
		}
	}
	return h, err
}

// Close closes the handle. Closing it again does nothing.
func (h *Handle) Close() {
	if h.fd >= 0 {
		_ = unix.Close(h.fd) // of a file of proc: nothing to lose
	}
	h.fd = -1
}

// Each calls fn with the mappings that the Reader's filter selects, in order of
// address, until it returns false. m is valid during the call.
func (h *Handle) Each(fn func(m *Mapping) bool) error {
	h.r.nextRound()
	defer h.r.opt.IDs.endRound()
	return h.wrap(h.each(fn))
}

// At finds the mapping that an address lies in. ok is false if there is none,
// or the filter leaves it out.
func (h *Handle) At(addr uint64) (m Mapping, ok bool, err error) {
	return h.one(addr, 0)
}

// Next finds the mapping that an address lies in, or else the next one that the
// filter selects.
func (h *Handle) Next(addr uint64) (m Mapping, ok bool, err error) {
	return h.one(addr, coveringOrNext)
}

// one begins a new round: the handle may stay open for long.
func (h *Handle) one(addr, next uint64) (m Mapping, ok bool, err error) {
	h.r.nextRound()
	defer h.r.opt.IDs.endRound()
	err = h.r.sure(func() error {
		m.End = 0 // of nothing before
		ok, err = h.find(addr, next, &m)
		return err
	})
	return m, ok, h.wrap(err)
}

func (h *Handle) wrap(err error) error {
	switch err {
	case nil:
		return nil
	case errMemoryGone:
		err = ErrGone
	}
	return &processError{h.pid, err}
}

// each goes through the selected mappings. It returns errMemoryGone if the
// memory was gone at the beginning or went before the end.
func (h *Handle) each(fn func(m *Mapping) bool) error {
	if h.r.opt.Source == Text {
		return h.eachText(fn)
	}
	m := &h.r.scratch
	m.End = 0
	for {
		ok, err := h.find(m.End, coveringOrNext, m)
		if err != nil {
			return err
		}
		if !ok || !fn(m) {
			return nil
		}
	}
}

// appendAll appends the selected mappings. It is each without a call and a copy
// for each mapping.
func (h *Handle) appendAll(list []Mapping) ([]Mapping, error) {
	if h.r.opt.Source == Text {
		err := h.each(func(m *Mapping) bool {
			list = append(list, *m)
			return true
		})
		return list, err
	}
	var addr uint64
	for {
		n := len(list)
		list = append(list, Mapping{End: addr})
		ok, err := h.find(addr, coveringOrNext, &list[n])
		if err != nil || !ok {
			return list[:n], err
		}
		addr = list[n].End
	}
}

// find asks for the mapping at an address, or the next one.
func (h *Handle) find(addr, next uint64, m *Mapping) (bool, error) {
	r := h.r
	if r.opt.Source == Text {
		return h.findText(addr, next, m)
	}
	before := m.End
	ok, err := h.query(addr, next|r.opt.Filter.flags(), m)
	switch {
	case err != nil:
		return false, err
	case !ok || m.End <= addr:
		return h.findGate(addr, next, before, m)
	}
	h.identify(m)
	return true, nil
}

// query makes one query and reads its answer. A name that is too long for the
// ioctl is taken from the text.
func (h *Handle) query(addr, flags uint64, m *Mapping) (bool, error) {
	b := h.r.buf
	errno := b.ask(h.fd, addr, flags, true)
	long := errno == unix.ENAMETOOLONG
	if long {
		errno = b.ask(h.fd, addr, flags, false)
	}
	switch errno {
	case 0:
	case unix.ENOENT:
		return false, nil
	case unix.ESRCH:
		return false, errMemoryGone
	default:
		return false, errno
	}
	m.Start, m.End, m.Offset, m.Inode = b.q.start, b.q.end, b.q.offset, b.q.inode
	m.Perms = Perms(b.q.perms & 0xf)
	m.Dev = Dev{b.q.major, b.q.minor}
	if long {
		if err := h.longName(m); err != nil {
			return false, err
		}
	} else {
		m.Name = h.r.names.Intern(b.answerName())
	}
	m.Kind = Classify(m.Name, m.Dev, m.Inode)
	return true, nil
}

// longName takes the name of a mapping, which the ioctl has no room for, from
// the text.
func (h *Handle) longName(m *Mapping) error {
	found := *m // m may be the Reader's, which the text uses too
	found.Name = ""
	err := h.lookText(func(t *Mapping) bool {
		if t.Start == found.Start && t.Dev == found.Dev && t.Inode == found.Inode {
			found.Name = t.Name
		}
		return t.Start < found.Start
	})
	*m = found
	return err
}

// findGate is find for [vsyscall], which comes after all other mappings. last
// is the end of the last mapping found, 0 if unknown.
func (h *Handle) findGate(addr, next, last uint64, m *Mapping) (bool, error) {
	gate := &h.r.gate
	inside := gate.Contains(addr) || next != 0 && addr < gate.Start
	if !inside || !h.r.opt.Filter.match(gate) {
		return false, nil
	}
	// Only processes of 64 bits have it, and those have something else above
	// 4 GiB: the stack.
	const low = 1 << 32
	if last <= low {
		if errno := h.r.buf.ask(h.fd, low, coveringOrNext, false); errno == unix.ESRCH {
			return false, errMemoryGone
		} else if errno != 0 {
			return false, nil
		}
	}
	*m = *gate
	return true, nil
}
