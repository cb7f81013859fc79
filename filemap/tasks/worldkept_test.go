package tasks

import (
	"slices"

	"ustack/tracefs"
)

// worldSpan is a time of a process, with the truth: whether it kept all files that it had.
type worldSpan struct {
	proc     *proc
	mem      *mm
	from, to tracefs.Time // to is 0 until it has ended
	kept     bool
}

// lose notes that a memory has lost a file that it had before.
func (m *mm) lose(before []int, at tracefs.Time) {
	for _, file := range before {
		if file != 0 && !slices.Contains(m.has[:], file) {
			m.lost = at
		}
	}
}

// span begins the span of a process, or ends one.
func (w *world) span(list []*thread) {
	if w.tasks == nil {
		return
	}
	if n := len(w.spans); n > 0 && w.spanRng.IntN(2) == 0 {
		// It ends with a stack, which nothing has that has ended.
		if s := &w.spans[max(0, n-1-w.spanRng.IntN(20))]; s.to == 0 && len(s.proc.threads) > 0 {
			s.to, s.kept = w.now, s.mem.lost < s.from && s.proc.mem == s.mem
		}
		return
	}
	if th := list[w.spanRng.IntN(len(list))]; !th.dead && len(w.spans) < 1000 {
		w.spans = append(w.spans, worldSpan{proc: th.proc, mem: th.proc.mem, from: w.now})
	}
}

// checkKept asks Tasks whether processes kept what they had.
func (w *world) checkKept() {
	w.spans = slices.DeleteFunc(w.spans, func(s worldSpan) bool {
		if s.to == 0 || s.to >= w.drained {
			return s.from < w.now-1e8
		}
		if w.tasks.Kept(s.proc.pid, s.from, s.to, w.spanRng.IntN(4) > 0) {
			if w.counts.kept++; !s.kept {
				w.counts.wrong++
				w.fail("process %d did not keep all that it had from %d to %d", s.proc.pid, s.from, s.to)
			}
		}
		return true
	})
}
