package sideband

import (
	"slices"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// namings are the parts of anonymous memory that may have got a name
// (PR_SET_VMA_ANON_NAME). The kernel reports that there was a call, its text is in
// the memory of the process: it is read as soon as possible.
type namings struct {
	pending []namedPart
	// by are the processes that have named anything.
	by map[int]bool
	// second is the current second, asked how many queries it had.
	second tracefs.Time
	asked  int
}

type namedPart struct {
	pid        int
	start, end uint64
	at         tracefs.Time
}

const (
	// maxNamings bounds the pending queries, and the processes that are known to
	// name memory; maxQuestions the queries in a second: a process must not keep us
	// busy.
	maxNamings   = 1 << 12
	maxQuestions = 1000
	// maxNamed bounds the mappings that are read because of one call.
	maxNamed = 16
)

// named notes that a process names memory.
func (b *Band) named(r *perf.Record, addr, size uint64) {
	n := &b.namings
	if n.by == nil || len(n.by) >= maxNamings {
		n.by = make(map[int]bool)
	}
	n.by[r.PID] = true
	end := addr + pages(size)
	if end <= addr {
		return
	}
	b.watch.overlap(b.calls.same(r.PID), addr, end)
	n.add(namedPart{r.PID, addr, end, r.Time})
}

// mapsUnnamed notes that a process has code in memory without a file, which may
// have had a name before it became code.
func (n *namings) mapsUnnamed(r *perf.Record, m *procmap.Mapping) {
	if n.by[r.PID] && m.Kind == procmap.Anonymous {
		n.add(namedPart{r.PID, m.Start, m.End, r.Time})
	}
}

func (n *namings) add(what namedPart) {
	if len(n.pending) < maxNamings {
		n.pending = append(n.pending, what)
	}
}

// mayAsk counts a question.
func (n *namings) mayAsk(now tracefs.Time) bool {
	if second := now / 1e9; second != n.second {
		n.second, n.asked = second, 0
	}
	n.asked++
	return n.asked <= maxQuestions
}

// nameReader reads the names of memory from processes.
type nameReader struct{ *Band }

// askNames reads the names of memory that got one, and drains the records that
// came meanwhile.
func (b nameReader) askNames() {
	for len(b.namings.pending) > 0 && b.completer.reader != nil {
		list := b.namings.pending
		b.namings.pending = nil
		for i := range list {
			if !list[i].overtaken(list[i+1:]) {
				b.askName(&list[i])
			}
		}
	}
	b.namings.pending = nil
}

// overtaken reports whether a later call names the same memory: the answer would be
// its name.
func (n *namedPart) overtaken(later []namedPart) bool {
	return slices.ContainsFunc(later, func(o namedPart) bool {
		return n.pid == o.pid && n.start < o.end && o.start < n.end
	})
}

// askName reads the names of the parts of a range that are code.
func (b nameReader) askName(n *namedPart) {
	for _, m := range b.History.codeBetween(n.pid, n.start, n.end, n.at) {
		if m.File.Kind != procmap.Anonymous && m.File.Kind != procmap.AnonNamed {
			continue
		}
		from, to := max(m.Start, n.start), min(m.End, n.end)
		for asked := 0; from < to && asked < maxNamed && b.namings.mayAsk(n.at); asked++ {
			now, ok := b.askAt(n, &m, from, to)
			if !ok || now.End <= from {
				break
			}
			part := now
			part.Start, part.End = max(now.Start, from), min(now.End, to)
			from = part.End
			if part.Name == m.File.Name && part.Kind == m.File.Kind {
				continue
			}
			b.History.unmapped(n.pid, part.Start, part.End, n.at)
			_ = b.History.mapped(n.pid, &part, n.at)
		}
	}
}

// askAt reads the mapping of a process at an address. ok is false if it may not have
// been there all the time since the call, as the mapping was then.
func (b nameReader) askAt(n *namedPart, was *space.Mapping, from, to uint64) (m procmap.Mapping, ok bool) {
	h, err := b.completer.reader.Open(n.pid)
	if err != nil {
		return m, false
	}
	defer h.Close()
	b.watch = watch{pid: n.pid, since: n.at, start: from, end: to}
	m, ok, err = h.At(from)
	b.drain()
	if is := b.History.Spaces.Space(n.pid).At(b.drained).Find(from); is == nil || is.Since != was.Since || is.File != was.File {
		return m, false
	}
	code := m.Kind == procmap.AnonNamed || m.Kind == procmap.Anonymous
	return m, ok && err == nil && code && !b.watch.changed
}
