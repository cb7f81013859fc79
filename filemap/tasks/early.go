package tasks

import "ustack/tracefs"

// calls returns the call that a task entered after a time, if it is under way: the record of
// its entry came before that of the birth of the task.
func (t *Tasks) calls(tid int, after tracefs.Time) []flight {
	m := t.memories[t.threads.now(tid)]
	if m == nil {
		return nil
	}
	var list []flight
	for _, f := range m.flights {
		if f.tid == tid && f.at > after {
			list = append(list, f)
		}
	}
	return list
}

// resume notes calls of a new task that are under way.
func (t *Tasks) resume(tid int, calls []flight) {
	m := t.memories[t.threads.now(tid)]
	for _, f := range calls {
		if m == nil || m.flight(tid) >= 0 {
			return
		}
		f.touched, f.met = true, true
		if f.kind == Clone || f.anywhere {
			f.spans = []span{whole}
		}
		if f.kind == Exec {
			t.loading[m] = true
		}
		for _, s := range f.spans {
			m.answer.drop(s)
			t.unknown(m, s, f.at)
			t.soil(m, s, f.at)
		}
		m.flights = append(m.flights, f)
	}
}
