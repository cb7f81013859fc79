package histgen

import (
	"path"
	"slices"
	"strings"
)

// Programs and libraries have all one layout: headers, code, data.
const (
	codeAt, codeSize = 1 * page, 4 * page
	dataAt, dataSize = 5 * page, 2 * page
	fileSize         = 7 * page

	kept = 6 // mappings of the program and the linker, which are not unmapped
)

// insertLibrary maps a file as the dynamic linker does, from one struct file.
func (g *generator) insertLibrary(p *process, f *file, log bool) {
	o := g.world.open(f)
	at := g.place(p.mm, fileSize)
	for _, v := range []vma{
		{start: at, end: at + codeAt, open: o},
		{start: at + codeAt, end: at + codeAt + codeSize, offset: codeAt, exec: true, open: o},
		{start: at + dataAt, end: at + dataAt + dataSize, offset: dataAt, open: o},
	} {
		g.insert(p.mm, v)
		if log {
			g.tick()
			g.mapped(p, &v)
		}
	}
}

// load maps a program and the dynamic linker: exec.
func (g *generator) load(p *process, program *file, log bool) {
	m := p.mm
	m.exe = program
	m.next, m.vdso = 0x7f0000000000+uint64(g.rng.IntN(4))*0x10000000, 0x7fff00000000+uint64(g.rng.IntN(1<<16))*page
	switch {
	case m.fixed:
		m.next, m.vdso = 0x7ffff7000000, 0x7ffff7fc1000
	case g.cfg.Poll:
		m.next += uint64(g.rng.IntN(1<<20)) * page
	}
	g.insertLibrary(p, program, log)
	if log {
		vdso := vma{start: m.vdso, end: m.vdso + 2*page}
		g.logf("map %s %d %s\n", seconds(g.now), p.pid, strings.Replace(vdso.String(), "anonymous - ", "vdso - [vdso]", 1))
	}
	g.insertLibrary(p, g.files[17], log)
}

func (g *generator) dlopen(p *process) {
	if len(p.mm.vmas) > 60 {
		g.dlclose(p)
		return
	}
	g.insertLibrary(p, g.files[g.rng.IntN(10)], true)
}

// dlclose unmaps a library, but for the first two mappings of files.
func (g *generator) dlclose(p *process) {
	m := p.mm
	if len(m.vmas) <= kept {
		return
	}
	v := m.vmas[kept+g.rng.IntN(len(m.vmas)-kept)]
	start, end := v.start, v.end
	if v.open != nil && !v.open.file.memfd {
		start -= v.offset
		end = start + fileSize
	}
	if g.chance(10) { // only a part of it
		end = start + page*uint64(1+g.rng.IntN(3))
	}
	g.unmap(m, start, end)
	m.holes = append(m.holes, start)
	g.unmapped(p, start, end)
}

// jit maps memory for code that no file has, or a memfd.
func (g *generator) jit(p *process) {
	v := vma{exec: true}
	v.start = g.place(p.mm, codeSize)
	v.end = v.start + codeSize
	if g.chance(50) {
		f := g.newFile("/memfd:jit code")
		f.links, f.deleted, f.memfd = 0, true, true
		v.open, v.shared = g.world.open(f), true
	}
	g.insert(p.mm, v)
	g.mapped(p, &v)
}

// mapOver maps over the code of a library: anonymous memory or another file.
func (g *generator) mapOver(p *process) {
	var code []vma
	for _, v := range p.mm.vmas[min(kept, len(p.mm.vmas)):] {
		if v.exec && v.open != nil {
			code = append(code, v)
		}
	}
	if len(code) == 0 {
		return
	}
	v := code[g.rng.IntN(len(code))]
	if g.chance(50) {
		v.open, v.offset, v.exec, v.shared = nil, 0, g.chance(30), false
	} else {
		v.open, v.exec, v.offset = g.world.open(g.files[g.rng.IntN(10)]), true, codeAt
	}
	g.insert(p.mm, v)
	if v.exec {
		g.mapped(p, &v)
	} else {
		g.unmapped(p, v.start, v.end)
	}
}

// move is mremap of the code of a library.
func (g *generator) move(p *process) {
	for i := range p.mm.vmas {
		v := p.mm.vmas[i]
		if i < kept || !v.exec || v.open == nil || g.chance(50) {
			continue
		}
		g.hold(v.open)
		g.unmap(p.mm, v.start, v.end)
		from, to := v.start, g.place(p.mm, v.end-v.start)
		v.start, v.end = to, to+v.end-v.start
		g.insert(p.mm, v)
		g.put(v.open)
		g.movedTo(p, from, &v)
		return
	}
}

func (g *generator) fork(p *process) {
	if len(g.procs) > 12 {
		return
	}
	c := g.newProcess(g.copy(p.mm))
	g.logf("fork %s %d %d\n", seconds(g.now), p.pid, c.pid)
}

// exec replaces a process's memory. Its other threads end, and a call in which
// one is never gets its stack.
func (g *generator) exec(p *process) {
	for _, t := range slices.Clone(p.threads[1:]) {
		g.exitThread(t)
	}
	if p.threads[0].call != nil {
		g.finish(p.threads[0])
	}
	program := g.files[10+g.rng.IntN(6)]
	g.drop(p.mm)
	if g.losing && p.mm.users > 0 {
		g.apart = append(g.apart, p)
	}
	p.mm = &mm{users: 1, fixed: p.mm.fixed != g.chance(5)}
	g.released(p)
	g.tick()
	p.comm = path.Base(program.path)
	g.logf("exec %s %d %s\n", seconds(g.now), p.pid, p.comm)
	g.logf("loading %s %d\n", seconds(g.now), p.pid)
	g.load(p, program, true)
	g.logf("loaded %s %d\n", seconds(g.tick()), p.pid)
	g.insertLibrary(p, g.files[16], true)
}

func (g *generator) exit(p *process) {
	if len(g.procs) >= 4 {
		g.end(p)
	}
}

func (g *generator) end(p *process) {
	for _, t := range slices.Clone(p.threads) {
		g.exitThread(t)
	}
	g.drop(p.mm)
	g.procs = slices.DeleteFunc(g.procs, func(q *process) bool { return q == p })
	g.released(p)
}

func (g *generator) exitThread(t *thread) {
	if t.call != nil {
		g.finish(t)
	}
	p := t.proc
	p.threads = slices.DeleteFunc(p.threads, func(o *thread) bool { return o == t })
	g.logf("exit %s %d %d\n", seconds(g.tick()), p.pid, t.tid)
	if g.losing {
		g.missing = append(g.missing, t)
	}
}
