package tasks

import "slices"

// enter has a thread make a call.
func (w *world) enter(th *thread) {
	c := &worldCall{}
	w.choose(th, c)
	if c.enter.Kind == Ended {
		return
	}
	c.enter.TID = th.tid
	th.call = c
	c.shown = w.record(th.cpu, c.enter)
}

func worldAddr(i int) uint64 { return worldBase + uint64(i)*slot }

// choose chooses a call.
func (w *world) choose(th *thread, c *worldCall) {
	m := th.proc.mem
	i := w.rng.IntN(slots)
	n := 1 + w.rng.IntN(min(2, slots-i))
	const exec, fixed, noErr = 4, 0x10, 0
	set := func(file int) func() uint64 {
		return func() uint64 {
			for k := range n {
				m.has[i+k] = file
			}
			return worldAddr(i)
		}
	}
	failed := func() uint64 { return ^uint64(11) } // -ENOMEM
	switch w.rng.IntN(22) {
	case 0, 1, 2, 3: // over what is there
		c.enter = Event{Kind: Map, Args: [5]uint64{worldAddr(i), uint64(n) * slot, exec, fixed}}
		c.effects = append(c.effects, set(0), set(w.newFile()))
		if w.rng.IntN(8) == 0 {
			c.effects = append(c.effects[:w.rng.IntN(2)], failed)
		}
	case 4, 5: // where there is room
		c.enter = Event{Kind: Map, Args: [5]uint64{0, slot, exec, 2}}
		file := w.newFile()
		c.effects = append(c.effects, func() uint64 {
			for k := range slots {
				if at := (i + k) % slots; m.has[at] == 0 {
					m.has[at] = file
					return worldAddr(at)
				}
			}
			return ^uint64(11)
		})
	case 6: // data
		c.enter = Event{Kind: Map, Args: [5]uint64{worldAddr(i), uint64(n) * slot, 1, fixed}}
		c.effects = append(c.effects, set(0))
	case 7, 8:
		c.enter = Event{Kind: Unmap, Args: [5]uint64{worldAddr(i), uint64(n)*slot - uint64(w.rng.IntN(100))}}
		c.effects = append(c.effects, set(0))
	case 9: // code of what is there as data
		c.enter = Event{Kind: Protect, Args: [5]uint64{worldAddr(i), uint64(n) * slot}}
		file := w.newFile()
		c.effects = append(c.effects, func() uint64 {
			for k := range n {
				if m.has[i+k] == 0 {
					m.has[i+k] = file
				}
			}
			return noErr
		})
	case 10, 11:
		w.move(th, c, i)
	case 12:
		c.enter = Event{Kind: Page, Args: [5]uint64{worldAddr(i), uint64(n) * slot}}
		c.effects = append(c.effects, set(w.newFile()))
	case 13:
		c.enter = Event{Kind: Attach, Args: [5]uint64{0x4000}}
		c.effects = append(c.effects, set(w.newFile()))
		if w.rng.IntN(2) == 0 {
			c.enter = Event{Kind: Detach}
			c.effects = []func() uint64{func() uint64 { return 0 }}
		}
	case 14, 15, 16:
		w.clone(th, c)
	case 17, 18:
		w.execute(th, c)
	case 19:
		w.end(th, c)
	default:
		c.enter = Event{Kind: Map, Args: [5]uint64{worldAddr(i), slot, exec, fixed}}
		file := w.newFile()
		n = 1
		c.effects = append(c.effects, set(file))
	}
}

func (w *world) newFile() int {
	w.files++
	return w.files
}

// move is mremap, over something or to where there is room.
func (w *world) move(th *thread, c *worldCall, i int) {
	m := th.proc.mem
	to := w.rng.IntN(slots)
	if to == i {
		to = (to + 1) % slots
	}
	if w.rng.IntN(2) == 0 {
		c.enter = Event{Kind: Move, Args: [5]uint64{worldAddr(i), slot, slot, 3, worldAddr(to)}}
		c.effects = append(c.effects, func() uint64 { m.has[to] = 0; return 0 }, func() uint64 {
			m.has[to], m.has[i] = m.has[i], 0
			return worldAddr(to)
		})
		return
	}
	c.enter = Event{Kind: Move, Args: [5]uint64{worldAddr(i), slot, slot, 1}}
	c.effects = append(c.effects, func() uint64 {
		for k := range slots {
			if at := (to + k) % slots; m.has[at] == 0 && at != i {
				m.has[at], m.has[i] = m.has[i], 0
				return worldAddr(at)
			}
		}
		return ^uint64(11)
	})
}

// clone makes a thread, a process that shares the memory, or one with a copy.
func (w *world) clone(th *thread, c *worldCall) {
	c.enter = Event{Kind: Clone}
	if len(w.tids) >= maxTasks {
		c.after = func() {}
		return
	}
	kind := w.rng.IntN(3)
	var copied mm
	if kind == 2 { // the copy is made some time before the birth
		c.effects = append(c.effects, func() uint64 {
			copied = *w.memory()
			copied.has = th.proc.mem.has
			return 0
		})
	}
	c.after = func() {
		var child *thread
		flags := uint64(0)
		switch kind {
		case 0:
			flags = 0x10100
			child = w.thread(th.proc)
		case 1:
			flags = 0x100
			child = w.process(th.proc.mem).threads[0]
		default:
			child = w.process(&copied).threads[0]
		}
		child.cpu = th.cpu
		w.record(th.cpu, Event{TID: th.tid, Kind: Born, Args: [5]uint64{uint64(child.tid), flags}})
	}
}

// execute has a process execute a program, or not find it.
func (w *world) execute(th *thread, c *worldCall) {
	c.enter = Event{Kind: Exec}
	if w.rng.IntN(2) == 0 {
		code := []uint64{2, 13, 8}[w.rng.IntN(3)] // ENOENT, EACCES, ENOEXEC
		c.effects = append(c.effects, func() uint64 { return -code })
		return
	}
	w.now += soonest // before anything happens
	p := th.proc
	c.effects = append(c.effects, func() uint64 { // the others end
		for _, o := range slices.Clone(p.threads) {
			if o != th {
				w.die(o)
			}
		}
		return 0
	}, func() uint64 {
		p.mem = w.memory()
		for i := range p.mem.has {
			p.mem.has[i] = w.file()
		}
		return 0
	})
	c.after = func() {
		old := th.tid
		if old != p.pid {
			delete(w.tids, old)
			w.reuse = append(w.reuse, old)
			th.tid = p.pid
			w.tids[p.pid] = th
		}
		w.record(th.cpu, Event{TID: p.pid, Kind: Executed, Args: [5]uint64{uint64(p.pid), uint64(old)}})
	}
}

// end ends a thread, or all of a process.
func (w *world) end(th *thread, c *worldCall) {
	c.enter.Kind = Ended
	if len(w.tids) < 3 {
		return
	}
	list := []*thread{th}
	if w.rng.IntN(2) == 0 {
		list = slices.Clone(th.proc.threads)
	}
	for _, o := range list {
		if o.call == nil { // or in a call, which ends first
			w.die(o)
		}
	}
}

// die ends a thread.
func (w *world) die(th *thread) {
	th.dead = true
	p := th.proc
	p.threads = slices.DeleteFunc(p.threads, func(o *thread) bool { return o == th })
	w.record(th.cpu, Event{TID: th.tid, Kind: Ended})
	if w.tids[th.tid] == th {
		delete(w.tids, th.tid)
	}
	if th.tid != p.pid {
		w.reuse = append(w.reuse, th.tid)
	}
	if len(p.threads) == 0 && w.procs[p.pid] == p {
		delete(w.procs, p.pid)
		w.reuse = append(w.reuse, p.pid)
	}
}
