package tasks

import "ustack/tracefs"

// calls returns the calls that a task entered after a time, if they are under way: the
// records of their entries came before that of the birth of the task. A nil memory has none.
func (m *memory) calls(tid int, after tracefs.Time) (list []flight) {
	if m == nil {
		return nil
	}
	for _, f := range m.flights {
		if f.tid == tid && f.at > after {
			list = append(list, f)
		}
	}
	return list
}

// resume notes calls of a new task that are under way.
func (k *known) resume(m *memory, calls []flight) {
	for _, f := range calls {
		if m == nil || m.flight(f.tid) >= 0 {
			return
		}
		f.touched, f.met = true, true
		if f.kind == Clone || f.anywhere {
			f.spans = []span{whole}
		}
		if f.kind == Exec {
			k.loading[m] = true
		}
		for _, s := range f.spans {
			m.answer.drop(s)
			k.unknown(m, s, f.at)
			k.soil(m, s, f.at)
		}
		m.flights = append(m.flights, f)
		k.losing(m, f.at)
	}
}
