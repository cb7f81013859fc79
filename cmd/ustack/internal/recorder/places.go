package recorder

import (
	"bytes"
	"slices"
	"strings"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/instance"
	"ustack/tracefs/syscalls"
)

// places writes into a report where futexes are: which process and program a thread is of that
// calls, and what is mapped around the futex. Where a report is read the processes have gone.
//
// A line holds until another one of the same thread or futex. So of the lines before any event
// of a report those that come last are there, without a gap: else a name could be of the past.
//
// Invariants: threads and layouts have at most most. lines are in the order in which they
// were written, and those of what threads and layouts have are among them, if they are kept.
type places struct {
	processes processes
	call      syscalls.Event
	threads   map[int32]program
	layouts   map[placeKey]placed
	most      int
	forgot    bool         // there may be lines of what layouts lack
	chunk     func() int64 // of a ring, which drops its text, nil for none: lines are kept then
	lines     []placeLine  // of now and of the time before all was forgotten last
	fresh     int          // the first one of now
	bytes     int          // of those of now
}

// processes is what live.Processes knows.
type processes interface {
	futex.Layouts
	futex.Programs
}

// program is what a thread runs, since when. The zero value is unknown.
type program struct {
	pid   int32
	began tracefs.Time
	exact bool
}

// placed is what was written of a futex.
type placed struct {
	layout filemap.Layout
	trust  filemap.Trust
}

// placeKey is a futex of a program.
type placeKey struct {
	program program
	addr    uint64
}

// placeLine is a line with the number of its chunk in the ring.
type placeLine struct {
	chunk int64
	text  []byte
}

// Bounds of what is remembered: then it is all forgotten, and written again.
const (
	mostPlaces     = 1 << 12
	mostPlaceBytes = 1 << 20
)

// newPlaces returns the places of a trace, nil if its report is not to have them: it is redacted,
// or has no futex calls.
func newPlaces(opt *Options, start *live.Start) *places {
	calls := slices.ContainsFunc(start.Events, func(e instance.Event) bool { return strings.Contains(e.Name, "enter_futex") })
	if opt.Redactor != nil || start.Processes == nil || !calls {
		return nil
	}
	s := &places{processes: start.Processes, most: mostPlaces}
	s.forget()
	return s
}

func (s *places) forget() {
	s.threads, s.layouts = make(map[int32]program), make(map[placeKey]placed)
	s.lines = slices.Clone(s.lines[s.fresh:])
	s.fresh, s.bytes = len(s.lines), 0
}

// before appends the lines of the places that are due before an event.
func (s *places) before(b []byte, h *resolve.Pending, rec *tracefs.Record) []byte {
	body := h.Text[rec.Body:rec.End]
	if rec.TID <= 0 || !bytes.HasPrefix(body, []byte("sys_futex")) || !syscalls.Parse(body, &s.call) || s.call.Exit || !s.call.Futex.HasAddr {
		return b
	}
	at, f := h.Time(rec), &s.call.Futex
	b = s.place(b, rec.TID, at, f.Addr)
	if f.Cmd.Moves() && f.Addr2 != 0 {
		b = s.place(b, rec.TID, at, f.Addr2)
	}
	return b
}

// place appends the line of a place if it is due.
func (s *places) place(b []byte, tid int32, at tracefs.Time, addr uint64) []byte {
	if len(s.threads) >= s.most || len(s.layouts) >= s.most || s.bytes >= mostPlaceBytes {
		s.forget()
		s.forgot = true
	}
	p, due := s.due(tid, at, addr)
	if !due {
		return b
	}
	from := len(b)
	b = futex.AppendPlace(b, p)
	if s.chunk != nil {
		s.lines = append(s.lines, placeLine{s.chunk(), bytes.Clone(b[from:])})
		s.bytes += len(b) - from
	}
	return b
}

// due returns the place of a call, and whether a line of it is due: the thread, or the futex, is
// new, or something else is mapped there now.
func (s *places) due(tid int32, at tracefs.Time, addr uint64) (p *futex.Place, due bool) {
	now := s.program(tid, at)
	last, seen := s.threads[tid]
	seen = seen && last == now
	if now.pid == 0 {
		s.threads[tid] = now
		return &futex.Place{TID: tid}, !seen
	}
	key := placeKey{now, addr}
	was, known := s.layouts[key]
	same := known && s.stays(tid, now.pid, at, addr, was.layout)
	if same && seen {
		return nil, false
	}
	p = &futex.Place{TID: tid, TGID: now.pid, Began: now.began, Exact: now.exact, Program: s.processes.Name(tid, at)}
	s.threads[tid] = now
	if same {
		return p, true
	}
	p.Addr = addr
	p.Layout, p.Trust = s.processes.Layout(tid, now.pid, nil, at, true, addr)
	if !inData(p.Layout, addr) {
		p.Layout, p.Trust = nil, filemap.NoTrust
	}
	s.layouts[key] = placed{p.Layout, p.Trust}
	if !known && p.Layout == nil && !s.forgot { // there is no line of it
		p.Addr, same = 0, true
	} else {
		same = known && p.Trust == was.trust && slices.Equal(p.Layout, was.layout)
	}
	return p, !seen || !same
}

// inData reports whether an address can be in the data of the program or library of a layout:
// there is no gap before it, as there is before the memory of malloc and the stacks of threads.
func inData(l filemap.Layout, addr uint64) bool {
	near := l.Owner(addr)
	if near == nil || len(l) > futex.MaxAreas {
		return false
	}
	for end := near.End; end <= addr; {
		a := l.At(end)
		if a == nil {
			return false
		}
		end = a.End
	}
	return true
}

// program is what a thread runs at a time.
func (s *places) program(tid int32, at tracefs.Time) program {
	pid, ok := s.processes.ProcessAt(tid, at)
	if !ok || pid <= 0 {
		return program{}
	}
	began, exact := s.processes.Program(tid, at)
	return program{pid, began, exact}
}

// stays reports whether a layout still holds for all that is known.
func (s *places) stays(tid, pid int32, at tracefs.Time, addr uint64, l filemap.Layout) bool {
	return l == nil || s.processes.Stays(tid, pid, nil, at, true, addr, l) == proof.Stayed
}

// earlier returns the lines that come before a chunk of the ring: if they are many, the newest.
func (s *places) earlier(chunk, room int64) (text []byte) {
	to := len(s.lines)
	for to > 0 && s.lines[to-1].chunk >= chunk {
		to--
	}
	from := to
	for from > 0 && int64(len(s.lines[from-1].text)) <= room {
		from--
		room -= int64(len(s.lines[from].text))
	}
	for _, l := range s.lines[from:to] {
		text = append(text, l.text...)
	}
	return text
}
