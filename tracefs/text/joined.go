package text

import "ustack/tracefs"

// tracerKey begins the file trace of tracefs (print_trace_header in kernel/trace/trace.c).
const tracerKey = "# tracer: "

// joins reports whether a line begins another file than the one that is read, as in
// files joined by cat(1): the head of a file of ours, or of the kernel's file trace in a
// trace that was saved with address spaces, as trace_pipe has none. A line feed in the
// name of a file can make any line where the kernel's text was saved: frames are late from
// there on, and none has a wrong file.
func (w *walk) joins(line []byte) bool {
	if !w.s.escaped || !hasPrefix(line, headKey) && !(w.s.saved && hasPrefix(line, tracerKey)) {
		return false
	}
	if w.join < 0 {
		w.join = w.i
	}
	return true
}

// join is where a text begins to be of another file: -1 if it does not yet.
func (s *Scanner) join() int {
	if s.joined {
		return 0
	}
	return -1
}

// joinedRecords marks the records of the text up to used that are of another file
// than its beginning.
func (w *walk) joinedRecords(used int) {
	if w.join < 0 || w.join >= used && !w.s.joined {
		return
	}
	if !w.s.joined { // in parts it is already, and others may read it
		w.s.joined = true
	}
	for i := range w.b.Records {
		if r := &w.b.Records[i]; int(r.Off) >= w.join {
			r.Flags |= tracefs.Joined
		}
	}
	w.s.open.left.Flags |= tracefs.Joined
}
