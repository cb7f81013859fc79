package observed

import (
	"testing"

	"ustack/tracefs"
)

// ending is a trace of processes that were read 90 ms before by the clock of the dump,
// and ended 3 ms after that.
func ending(processes int32, more func(e *Mappings, pid int32, read tracefs.Time)) *Mappings {
	const ahead = tracefs.Time(90e6)
	d := newDump()
	e := &Mappings{dump: d, clocks: newCalibration()}
	for pid := int32(1); pid <= processes; pid++ {
		at := tracefs.Time(pid) * 1e9
		d.spaces[pid] = []version{{at: at - 50e6, comm: "sh"}, {at: at, comm: "app"}}
		d.tids[pid], d.tids[100+pid] = pid, pid
		read := at + ahead
		e.Ended(100+pid, []byte("worker"), read+1e6)
		e.Ended(pid, []byte("app"), read+3e6)
		if more != nil {
			more(e, pid, read)
		}
	}
	e.clocks.hearEnds(d)
	return e
}

// TestEnds: what was read of processes was read before they ended.
func TestEnds(t *testing.T) {
	const want = tracefs.Time(93e6)
	for n := int32(1); n <= 4; n++ {
		most := ending(n, nil).clocks.said(agreeing).most
		if n < agreeing && most != ever || n >= agreeing && most != want {
			t.Errorf("%d processes that ended say at most %d", n, most)
		}
	}
	if s := ending(4, nil).clocks.skew(); s != (skew{-lag - unsure, want + unsure}) {
		t.Errorf("the clocks are %+v apart", s)
	}
	late := ending(4, func(e *Mappings, pid int32, read tracefs.Time) { e.Ended(100+pid, []byte("worker"), read+7e6) })
	if most := late.clocks.said(agreeing).most; most != want+4e6 {
		t.Errorf("processes whose last thread ended later say at most %d", most)
	}
}

// TestEndsOfOthers: processes that live on can be read after any of these.
func TestEndsOfOthers(t *testing.T) {
	for name, more := range map[string]func(e *Mappings, pid int32, read tracefs.Time){
		"a thread of it lives":          func(e *Mappings, pid int32, _ tracefs.Time) { delete(e.clocks.ends, 100+pid) },
		"a thread of it ran later":      func(e *Mappings, pid int32, read tracefs.Time) { e.Lives(100+pid, read+4e6) },
		"another thread executed":       func(e *Mappings, pid int32, read tracefs.Time) { e.Lives(pid, read+4e6) },
		"another program has the PID":   func(e *Mappings, pid int32, read tracefs.Time) { e.Ended(pid, []byte("sh"), read+3e6) },
		"its first thread did not end":  func(e *Mappings, pid int32, _ tracefs.Time) { delete(e.clocks.ends, pid) },
		"the name read last is unknown": func(e *Mappings, pid int32, _ tracefs.Time) { e.dump.spaces[pid][1].comm = "" },
	} {
		if most := ending(4, more).clocks.said(agreeing).most; most != ever {
			t.Errorf("%s: at most %d", name, most)
		}
	}
}
