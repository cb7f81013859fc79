package tasks

import (
	"fmt"
	"slices"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// pass has time pass while the kernel is asked.
func (w *world) pass() {
	if w.asking++; w.asking == 1 {
		for range w.rng.IntN(3) {
			w.step()
		}
	}
	w.asking--
	w.now += tracefs.Time(w.rng.IntN(300))
}

func worldName(file int) string { return fmt.Sprintf("/f%d", file) }

// Code implements Asker: what is there is read one slot after the other.
func (w *world) Code(pid int, start, end uint64, list []procmap.Mapping) ([]procmap.Mapping, error) {
	w.pass()
	p := w.procs[pid]
	if p == nil || len(p.threads) == 0 {
		return list, procmap.ErrGone
	}
	m := p.mem
	for i := range slots {
		at := worldAddr(i)
		if at >= end || at+slot <= start {
			continue
		}
		if m.has[i] != 0 {
			list = append(list, procmap.Mapping{Start: at, End: at + slot, Offset: uint64(i) * slot, Inode: uint64(m.has[i]), Name: worldName(m.has[i]),
				Perms: procmap.Read | procmap.Exec, Kind: procmap.File, Dev: procmap.Dev{Major: 8}})
		}
		w.pass()
	}
	return list, nil
}

// PIDs implements Asker.
func (w *world) PIDs() (list []int, err error) {
	w.pass()
	for pid := range w.procs {
		list = append(list, pid)
	}
	slices.Sort(list)
	return list, nil
}

// Threads implements Asker; one can be missing if another one ends meanwhile.
func (w *world) Threads(pid int) (list []int, err error) {
	p := w.procs[pid]
	if p == nil {
		return nil, procmap.ErrGone
	}
	before := slices.Clone(p.threads)
	w.pass()
	for _, th := range before {
		if !th.dead {
			list = append(list, th.tid)
		}
	}
	if len(list) < len(before) && len(list) > 1 {
		list = list[1:]
	}
	return list, nil
}

// ThreadGroup implements Asker.
func (w *world) ThreadGroup(tid int) (int, error) {
	w.pass()
	if th := w.tids[tid]; th != nil {
		return th.proc.pid, nil
	}
	return 0, procmap.ErrGone
}

// Compare implements Asker.
func (w *world) Compare(a, b int) (order int, ok bool) {
	w.pass()
	p, q := w.procs[a], w.procs[b]
	if p == nil || q == nil {
		return 0, false
	}
	return p.mem.id - q.mem.id, true
}

// Outside implements Asker.
func (w *world) Outside(_, tid int, _ tracefs.Time) Place {
	w.pass()
	th := w.tids[tid]
	switch {
	case th == nil:
		return NoThread
	case th.call == nil || th.call.enter.Kind == Clone || th.call.enter.Return && w.now >= th.call.shown:
		return Elsewhere
	}
	return Inside
}
