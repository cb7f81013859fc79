package histgen

import "slices"

// clone makes a process that shares the memory of another one (CLONE_VM without
// CLONE_THREAD), nil if there are enough. vfork: the thread that made it waits until
// it has executed a program or ended.
func (g *generator) clone(t *thread, vfork bool) *process {
	if len(g.procs) > 12 || t.call != nil || t.waits != nil {
		return nil
	}
	p := t.proc
	p.mm.users++
	c := g.newProcess(p.mm)
	if vfork {
		t.waits = c
	}
	g.logf("fork %s %d %d\n", seconds(g.now), p.pid, c.pid)
	g.logf("share %s %d %d\n", seconds(g.tick()), p.pid, c.pid)
	return c
}

// spawn is posix_spawn: a child on its own stack in the parent's memory makes a few
// calls and executes a program, then the parent unmaps the stack.
func (g *generator) spawn(t *thread) {
	c := g.clone(t, true)
	if c == nil {
		return
	}
	p, m := t.proc, t.proc.mm
	stack := vma{start: g.place(m, codeSize)}
	stack.end = stack.start + codeSize
	g.insert(m, stack)
	for range g.rng.IntN(3) {
		g.enter(c.threads[0])
		if g.chance(20) {
			g.dlopen(p) // by another thread of the parent
		}
		g.finish(c.threads[0])
	}
	if g.chance(10) { // there is no such program
		g.end(c)
	} else {
		g.exec(c)
	}
	g.tick()
	g.unmap(m, stack.start, stack.end)
}

// released lets those go on that wait for a process.
func (g *generator) released(c *process) {
	for _, p := range g.procs {
		for _, t := range p.threads {
			if t.waits == c {
				t.waits = nil
			}
		}
	}
}

// sharing returns the processes that have an address space.
func sharing(procs []*process, m *mm) (list []*process) {
	for _, p := range procs {
		if p.mm == m {
			list = append(list, p)
		}
	}
	return list
}

// compare logs what a side band finds out by kcmp(2): which processes share their
// memory.
func (g *generator) compare() {
	for _, p := range g.apart {
		g.logf("unshare %s %d\n", seconds(g.tick()), p.pid)
		if g.lives(p.pid) {
			g.reading(p)
		}
	}
	g.apart = nil
	for i, p := range g.procs {
		all := sharing(g.procs, p.mm)
		if at := slices.Index(all, p); at > 0 {
			g.tick()
			g.logf("share %s %d %d\n", seconds(g.now), all[0].pid, g.procs[i].pid)
			g.reading(all[0])
			g.reading(p)
		}
	}
}

// swap unloads a library and loads another one right away, whose struct file is
// where the old one's was, often at its addresses, too.
func (g hostile) swap(p *process) {
	m := p.mm
	if len(m.vmas) <= kept {
		return
	}
	v := m.vmas[kept+g.rng.IntN(len(m.vmas)-kept)]
	if v.open == nil || v.open.file.memfd {
		return
	}
	start := v.start - v.offset
	g.unmap(m, start, start+fileSize)
	g.unmapped(p, start, start+fileSize)
	if g.chance(60) {
		m.holes = append(m.holes, start)
	}
	g.tick()
	g.insertLibrary(p, g.files[g.rng.IntN(10)], true)
}

// again maps code of a struct file once more that the process has kept open, at
// another place or where a part of it was.
func (g hostile) again(p *process) {
	m := p.mm
	if len(m.vmas) <= kept || len(m.vmas) > 60 {
		return
	}
	v := m.vmas[kept+g.rng.IntN(len(m.vmas)-kept)]
	if v.open == nil || !v.exec {
		return
	}
	g.hold(v.open)
	if g.chance(50) {
		g.unmap(m, v.start, v.end)
		g.unmapped(p, v.start, v.end)
		g.tick()
	}
	size := v.end - v.start
	if g.chance(50) {
		v.start = g.place(m, size)
		v.end = v.start + size
	}
	g.insert(m, v)
	g.mapped(p, &v)
	g.put(v.open)
}
