package live

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/filemap/whole"
	"ustack/tracefs"
	"ustack/tracefs/instance"
	"ustack/tracefs/text"
)

// settings watches over the settings of our instance while it traces. If another
// user changes one, records from around that time cannot be trusted: times may be
// of another clock, stacks and their events may be missing. So records that have
// not been attributed are dropped, clock and options are put back, and the trace
// has a gap there.
type settings struct {
	s     *session
	watch *instance.Watch // nil if there is none

	mu      sync.Mutex
	pending []instance.Change // noticed, and not yet placed in the trace
	reader  source.Source     // of the trace
	changes map[string]int    // how often each was made
	gaps    atomic.Int64
	end     chan struct{}
	once    sync.Once
}

const (
	// lookEvery is how often changes are looked for while nothing is read.
	lookEvery = time.Second / 2
	// maxSaid bounds the changes that are reported when they are noticed, and the
	// kinds of changes that are kept apart.
	maxSaid = 10
)

// watchSettings begins to watch, as soon as the instance is set up.
func (s *session) watchSettings() error {
	w, err := s.in.Watch(instance.Config{Clock: Clock}, append(s.events[:len(s.events):len(s.events)], s.maps...))
	if err != nil {
		return err
	}
	st := &s.settings
	st.s, st.watch, st.end, st.changes = s, w, make(chan struct{}), make(map[string]int)
	go st.keepUp()
	return nil
}

// keepUp looks for changes now and then: a trace that was switched off has
// nothing to read.
func (st *settings) keepUp() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-st.end:
			return
		case <-ticker.C:
		}
		st.look()
		st.mu.Lock()
		if len(st.pending) > 0 && st.reader != nil {
			_ = st.reader.Interrupt() // of reading: Next returns, and opens it again
			st.reader = nil
		}
		st.mu.Unlock()
	}
}

// look reports whether something has been changed that the trace has no gap for.
// Changes after we have stopped tracing do not matter.
func (st *settings) look() bool {
	if st.watch == nil {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.s.until.Load() != 0 {
		return len(st.pending) > 0
	}
	fresh := st.watch.Look()
	st.pending = append(st.pending, fresh...)
	for _, c := range fresh {
		st.say(c)
	}
	return len(st.pending) > 0
}

// say reports a change when it is noticed.
func (st *settings) say(c instance.Change) {
	text := c.String()
	switch n := len(st.changes); {
	case st.changes[text] > 0:
	case n >= maxSaid:
		text = "other files"
	default:
		st.s.say("another user has written %s of the instance %s", text, st.s.in.Name())
	}
	st.changes[text]++
}

// reads notes what reads the trace.
func (st *settings) reads(reader source.Source) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.reader = reader
}

// take takes the changes that the trace has no gap for. There is nothing to
// close until the trace is open again.
func (st *settings) take() []instance.Change {
	st.mu.Lock()
	defer st.mu.Unlock()
	changes := st.pending
	st.pending, st.reader = nil, nil
	return changes
}

// maxReopens bounds how often a trace is opened again for one gap.
const maxReopens = 100

// reopen puts settings back and opens the trace, which fails if the clock is
// changed meanwhile.
func (st *settings) reopen() (changes []instance.Change, next source.Source, err error) {
	for range maxReopens {
		changes = append(changes, st.take()...)
		if err = st.watch.Restore(); err != nil {
			return nil, nil, err
		}
		if next, err = st.s.open(); err == nil || !st.look() {
			break
		}
	}
	return changes, next, err
}

// again puts a gap in the place of a batch, and opens the trace again. Setting the
// clock, if only to what it is, empties the buffer: no earlier record is left to
// be paired with later ones.
func (st *settings) again(r *followed, b *tracefs.Batch) error {
	_ = r.Source.Close() // of reading, and again if we have closed it to come here
	changes, next, err := st.reopen()
	if err != nil {
		return err
	}
	r.before += r.Source.Size()
	r.Source = next
	cpus, err := st.s.tracer.CPUs()
	if err != nil {
		return err
	}
	writeGap(b, cpus, changes)
	st.gaps.Add(1)
	return nil
}

// writeGap writes what the kernel writes where records of a CPU are lost, for all
// of them, and a comment that says why.
func writeGap(b *tracefs.Batch, cpus []int32, changes []instance.Change) {
	b.Reset()
	add := func(kind tracefs.Kind, cpu int32, line string) {
		at := uint32(len(b.Text))
		b.Text = append(b.Text, line...)
		b.Records = append(b.Records, tracefs.Record{Kind: kind, CPU: cpu, TID: tracefs.NoTID, Off: at, Body: at, End: uint32(len(b.Text))})
		b.Lines++
	}
	for _, cpu := range cpus {
		add(tracefs.KindLost, cpu, string(text.AppendLost(nil, cpu, 0)))
	}
	var words []string
	for _, c := range changes {
		if text := c.String(); !slices.Contains(words, text) && len(words) < maxSaid {
			words = append(words, text)
		}
	}
	add(tracefs.KindNote, tracefs.NoCPU, "##### ustack: another user has written "+strings.Join(words, ", ")+" ####\n")
}

// report prints all changes.
func (st *settings) report(say func(string, ...any)) {
	if st.gaps.Load() == 0 {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	var list []string
	for text, n := range st.changes {
		list = append(list, fmt.Sprintf("%s %d times", text, n))
	}
	slices.Sort(list)
	say("%d gaps in the trace, where another user has written settings of our instance: %s", st.gaps.Load(), strings.Join(list, ", "))
}

// close ends the watch.
func (st *settings) close() {
	if st.watch == nil {
		return
	}
	st.once.Do(func() { close(st.end) })
	_ = st.watch.Close() // of reading
}

// position keeps the places of batches apart when the trace is opened again.
type position struct{ pos, line, beforePos, beforeLine int64 }

// put puts a batch after the earlier ones, including batches of another reader. It may
// be longer than it was when it was read.
func (p *position) put(b *tracefs.Batch, was *whole.Arrival) {
	size := int64(len(b.Text))
	b.Pos, b.Line = b.Pos+p.beforePos, b.Line+p.beforeLine
	p.beforePos, p.beforeLine = p.beforePos+size-was.Size, p.beforeLine+b.Lines-was.Lines
	p.pos, p.line = b.Pos+size, b.Line+b.Lines
}

// restart has the places of the next reader count from here.
func (p *position) restart() { p.beforePos, p.beforeLine = p.pos, p.line }
