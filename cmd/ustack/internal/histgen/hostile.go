package histgen

import "fmt"

// hostile is what a machine does to mappings that a tracer does not expect.
type hostile struct{ *generator }

// keep is mremap with MREMAP_DONTUNMAP: the code is at another place, and its old
// mapping stays.
func (g hostile) keep(p *process) {
	v, ok := g.code(p, func(v *vma) bool { return v.open != nil })
	if !ok || len(p.mm.vmas) > 60 {
		return
	}
	size := v.end - v.start
	g.hold(v.open)
	v.start = g.place(p.mm, size)
	v.end = v.start + size
	g.insert(p.mm, v)
	g.put(v.open)
	g.mapped(p, &v)
}

// turn is remap_file_pages: a page of shared code becomes another one of the same file.
func (g hostile) turn(p *process) {
	v, ok := g.code(p, func(v *vma) bool { return v.shared && v.open != nil && v.end-v.start > page })
	if !ok {
		return
	}
	pages := int((v.end - v.start) / page)
	at := uint64(g.rng.IntN(pages)) * page
	v.start += at
	v.end = v.start + page
	v.offset = uint64(g.rng.IntN(pages)) * page
	g.insert(p.mm, v)
	g.mapped(p, &v)
}

// attach is shmat with SHM_EXEC, at times over other code (SHM_REMAP).
func (g hostile) attach(p *process) {
	f := g.newFile(fmt.Sprintf("/SYSV%08x", g.rng.IntN(3)))
	f.links, f.deleted, f.sysv = 0, true, true
	v := vma{exec: true, shared: true, open: g.world.open(f)}
	if old, ok := g.code(p, func(*vma) bool { return true }); ok && g.chance(50) {
		v.start, v.end = old.start, old.end
	} else {
		v.start = g.place(p.mm, codeSize)
		v.end = v.start + codeSize
	}
	g.insert(p.mm, v)
	g.mapped(p, &v)
}

// code chooses code of a process, but for that of the program and the linker.
func (g hostile) code(p *process, is func(*vma) bool) (vma, bool) {
	var list []vma
	for i := kept; i < len(p.mm.vmas); i++ {
		if v := &p.mm.vmas[i]; v.exec && is(v) {
			list = append(list, *v)
		}
	}
	if len(list) == 0 {
		return vma{}, false
	}
	return list[g.rng.IntN(len(list))], true
}

// otherTracer has the kernel announce files for a stack of which our trace has nothing:
// of another instance, or of a tool. Each write to its tracing_on makes the kernel forget
// what it has announced. The records of the announcements ask for a stack, too, at the
// thread's next return to user space.
func (g hostile) otherTracer(t *thread) {
	if !g.cfg.Others || g.cfg.Dialect == Stock || t.call != nil || t.waits != nil {
		return
	}
	stack := g.addresses(t.proc.mm)
	if len(t.last) > 0 && g.chance(60) {
		stack = t.last
		if g.chance(60) {
			g.swap(t.proc)
		}
	}
	if g.chance(40) {
		clear(g.announced)
	}
	fresh := g.fresh(t.proc.mm, stack)
	if len(fresh) == 0 {
		return
	}
	g.cookies++
	g.announce(t, fresh, (2*g.cookies+1)<<32|uint64(t.cpu+1))
}

// fresh returns the open files of addresses that the kernel has not announced, which it
// has then.
func (g hostile) fresh(m *mm, stack []uint64) (list []*openFile) {
	for _, addr := range stack {
		v := m.at(addr)
		if v == nil || v.open == nil {
			continue
		}
		if key := g.key(v.open); !g.announced[key] {
			g.announced[key] = true
			list = append(list, v.open)
		}
	}
	return list
}
