package tasks

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// Asker asks processes what they are now. It is for one goroutine.
type Asker interface {
	// Code appends the code that a process has mapped among addresses; the kernel gives
	// one mapping after the other.
	Code(pid int, start, end uint64, list []procmap.Mapping) ([]procmap.Mapping, error)
	// PIDs lists the processes, Threads the threads of one. One that begins or ends
	// meanwhile can be missing.
	PIDs() ([]int, error)
	Threads(pid int) ([]int, error)
	// ThreadGroup returns the process of a thread.
	ThreadGroup(tid int) (int, error)
	// Compare orders processes by their memory: 0 means that they share it (kcmp(2)).
	Compare(a, b int) (order int, ok bool)
	// Outside reports whether a thread is, or was after a time, in no call that can change
	// its memory.
	Outside(pid, tid int, since tracefs.Time) Place
}

// maxRounds bounds how often processes that do not hold still are asked in one Settle.
const maxRounds = 3

// Settle brings the spaces up to date. drain calls Add and Lose with what has happened up to
// now, then Drained.
func (t *Tasks) Settle(drain func() error) error {
	for round := 0; ; round++ {
		if err := drain(); err != nil {
			return err
		}
		if round == maxRounds || !t.ask() {
			return nil
		}
	}
}

// ask asks the processes that have changed, and reports whether there were any. The answers
// count when all is known that happened until then.
func (t *Tasks) ask() (asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost {
		t.census()
	}
	t.replacing = t.replaces()
	now := t.clock()
	for _, m := range t.due() {
		switch {
		case m.blind || len(m.pids) == 0:
			delete(t.todo, m)
		case m.again > now:
		case t.askOne(m):
			asked = true
		default:
			m.tries++
			m.again = now + min(patience<<min(m.tries, 16), maxPatience)
		}
	}
	return asked
}

// due returns the memories to ask, in the order of their processes.
func (k *known) due() []*memory {
	list := slices.Collect(maps.Keys(k.todo))
	first := func(m *memory) int {
		if len(m.pids) == 0 {
			return 0
		}
		return m.pids[0]
	}
	slices.SortFunc(list, func(a, b *memory) int { return first(a) - first(b) })
	return list
}

// patience is how soon a process is asked again that could not be asked, at first and at last.
const patience, maxPatience = tracefs.Time(100_000), tracefs.Time(100_000_000)

// askOne asks a process, for its threads if these are in doubt. It reports whether it did.
func (t *Tasks) askOne(m *memory) bool {
	if m.answer != nil {
		return false
	}
	if m.doubt != nil {
		if listed, resolved := t.resolve(m); !resolved {
			return listed
		}
	}
	var parts []part
	for _, p := range m.dirty {
		if !m.busy(p.span) {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return false
	}
	for _, pid := range m.pids {
		a := &answer{asked: t.clock(), parts: parts}
		var err error
		for _, p := range parts {
			if a.code, err = t.asker.Code(pid, p.start, p.end, a.code); err != nil {
				break
			}
		}
		if errors.Is(err, procmap.ErrGone) {
			continue
		}
		switch {
		case err == nil && space.Compat(a.code), errors.Is(err, procmap.ErrNoMemory), errors.Is(err, fs.ErrPermission):
			m.blind = true // calls that are not seen, no program, or none for us
			for _, pid := range m.pids {
				t.undo(pid)
			}
			delete(t.todo, m)
			return false
		case err != nil:
			return false
		}
		a.code = compact(a.code)
		a.answered = t.clock() + slack
		m.answer = a
		return true
	}
	return false
}

// slack is more than two readings of the clock can disagree on different CPUs.
const slack = tracefs.Time(2000)

// compact leaves out repetitions: a mapping that lies in several parts comes with each.
func compact(ms []procmap.Mapping) []procmap.Mapping {
	return slices.CompactFunc(ms, func(a, b procmap.Mapping) bool { return a == b })
}
