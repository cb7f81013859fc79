package resolve

// task is the state of one thread.
type task struct {
	span    span
	early   *early // what was announced before the stack
	cookie  uint64 // of its last request
	pending bool   // the stack of it has not come
	// announced: there was a mapping event since the last cookie.
	announced bool
	losses    int64 // those noted when it asked
	asked     asked // for the late stacks
	stitch    taskStitch
	waits     int64 // the next stack is of a futex call that can wait, if losses is one less by then
}

// tasks is a table of threads by number. The hot path looks a thread up for
// every cookie and stack, so it is an array of pages, not a map. Pages are
// bounded: a trace may name four million threads.
//
// Invariants: used is the number of pages, at most maxPages. A thread that is
// dropped waits for nothing: drop ends its waits.
type tasks struct {
	pages [maxTask >> pageBits]*page
	used  int
	drop  func(*task)
}

const (
	pageBits = 6
	maxTask  = 4<<20 + 1<<pageBits // tracefs.MaxTID and a rest
	maxPages = 2048                // some 20 MB
)

type page [1 << pageBits]task

// get returns a thread's state.
func (ts *tasks) get(tid int32) *task {
	n := uint32(tid) >> pageBits
	if n < maxTask>>pageBits {
		if p := ts.pages[n]; p != nil {
			return &p[uint32(tid)&(1<<pageBits-1)]
		}
	}
	return ts.add(tid)
}

// add makes room for a thread. Threads that cannot be share one place.
func (ts *tasks) add(tid int32) *task {
	n := min(uint32(tid)>>pageBits, maxTask>>pageBits-1)
	if ts.pages[n] == nil {
		if ts.used >= maxPages {
			ts.forget()
		}
		ts.pages[n] = new(page)
		ts.used++
	}
	return &ts.pages[n][uint32(tid)&(1<<pageBits-1)]
}

// each calls f for every task.
func (ts *tasks) each(f func(*task)) {
	for _, p := range ts.pages {
		if p == nil {
			continue
		}
		for i := range p {
			f(&p[i])
		}
	}
}

// forget makes room: pages of threads that wait for nothing go first,
// and if there is none, all go.
func (ts *tasks) forget() {
	for pass := range 2 {
		for n, p := range ts.pages {
			if p == nil || pass == 0 && p.busy() {
				continue
			}
			for i := range p {
				ts.drop(&p[i])
			}
			ts.pages[n] = nil
			ts.used--
		}
		if ts.used < maxPages/2 {
			return
		}
	}
}

func (p *page) busy() bool {
	for i := range p {
		if p[i].pending || p[i].span.pending != nil {
			return true
		}
	}
	return false
}
