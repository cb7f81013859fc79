package timeline

import (
	"slices"

	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// An identifier means one file for as long as that is mapped anywhere. Where processes are
// read, and one may be gone before, this is known without its mappings: the kernel announced
// the file because of a stack of the process, which has unmapped nothing since (Options.Kept).

// heard are the files that were announced because of stacks whose processes are known to keep
// what they have mapped, or may be.
type heard struct {
	by    map[tracefs.Identifier][]*hearing // the latest one last
	last  map[int32][]*hearing              // of the last stack of a thread that has any
	count int                               // of announcements since both were empty
}

// hearing is an announcement because of a stack of a thread, which was asked for at a time.
// The kernel looks at the mappings some time after that, and after the time of the stack's
// record, but before the thread is in user space again: it has looked by the time known, when
// the thread asked for another stack.
type hearing struct {
	pid       int
	tid       int32
	at, known tracefs.Time
	file      *filemap.File
	// code: the thread ran there.
	code bool
}

// maxHeard is after how many announcements all are forgotten, maxHeardPer bounds the ones of
// one identifier.
const (
	maxHeard    = 1 << 16
	maxHeardPer = 8
)

// hear notes what the kernel announced because of a stack.
func (j *Attributor) hear(pid int, s *resolve.Query) {
	if s.Asked == 0 || j.Foreign(s) {
		return
	}
	asked := s.Asked - j.opt.Stamp.Before
	if list, ok := j.heard.last[s.TID]; ok && list[0].at < asked {
		for _, x := range list {
			x.known = asked
		}
		delete(j.heard.last, s.TID)
	}
	for k := range s.Frames {
		f, o := &s.Frames[k], &s.Attributions[k]
		if f.Form == tracefs.FormIdentifier && isOne(f.ID) && o.Owned() && o.File != nil {
			j.heard.add(f.ID, &hearing{pid: pid, tid: s.TID, at: asked, known: space.Forever, file: o.File, code: k == 0 && !s.Continued})
		}
	}
}

// isOne reports whether an identifier is of one file at a time: on a file system without a
// device of its own files can share a number (see observed.isOne).
func isOne(id tracefs.Identifier) bool { return !id.IsInode() || numberIn(id).dev.Major != 0 }

func (h *heard) add(id tracefs.Identifier, x *hearing) {
	if h.by == nil || h.count >= maxHeard {
		h.by, h.last, h.count = make(map[tracefs.Identifier][]*hearing), make(map[int32][]*hearing), 0
	}
	list := h.by[id]
	if n := len(list); n > 0 && list[n-1].tid == x.tid && list[n-1].at == x.at && list[n-1].file == x.file && (list[n-1].code || !x.code) {
		return // another frame of the stack
	}
	if len(list) == maxHeardPer {
		list = slices.Delete(list, 0, 1)
	}
	h.by[id], h.count = append(list, x), h.count+1
	h.last[x.tid] = append(h.last[x.tid], x)
}

// of returns the announcement that says what an identifier means in a process between two
// times: it has kept the file. ok is false if there is none, or several that differ.
func (h *heard) of(id tracefs.Identifier, pid int, from, to tracefs.Time, kept func(pid int, from, to tracefs.Time, code bool) bool) (found *hearing, ok bool) {
	for _, x := range h.by[id] {
		switch {
		case x.pid != pid || x.known > from || !kept(x.pid, x.at, to, x.code):
		case ok && found.file != x.file:
			return found, false
		default:
			found, ok = x, true
		}
	}
	return found, ok
}

// kept is where a frame is whose identifier is still the one of a file that was announced.
func (q *query) kept() proof.Said {
	if q.j.opt.Kept == nil || !isOne(q.id) {
		return proof.Said{}
	}
	x, ok := q.j.heard.of(q.id, q.pid, q.begin, q.t, q.j.opt.Kept)
	if !ok {
		return proof.Said{}
	}
	if q.v != nil {
		switch file, one := q.fits.match(announcedAs(x.file, q.id)); {
		case !one, file == nil && q.v.Whole():
			return proof.Said{} // it is in data, or what is known is not of that time
		case file != nil:
			q.keeps(x)
			m, only := q.fits.of(file)
			return q.code(file, m, only)
		}
	}
	if q.keeps(x); q.j.isData(x.file, q.offset, q.t) {
		return proof.Said{Place: proof.InData}
	}
	q.heard, q.in = x.file, nil
	return proof.Said{Place: proof.Unknown, Sure: proof.Afterwards}
}

// keeps adds the steps.
func (q *query) keeps(x *hearing) {
	for _, s := range []proof.Statement{proof.Carried, proof.Kept} {
		q.why.Add(proof.Step{Statement: s, PID: x.pid, File: x.file.Path, From: x.at, To: q.t})
	}
}
