package histgen

import (
	"fmt"
	"strings"
)

// logf writes a line of the log, or loses it.
func (g *generator) logf(format string, args ...any) {
	if g.losing {
		g.lostLines++
		return
	}
	g.lines++
	fmt.Fprintf(g.log, format, args...)
}

// mapped logs a mapping, if the side band reports it: only executable ones.
func (g *generator) mapped(p *process, v *vma) {
	if v.exec {
		g.logf("map %s %d %s\n", seconds(g.now), p.pid, v)
	}
}

// unmapped logs that a range is not mapped, or not executable, any more.
func (g *generator) unmapped(p *process, start, end uint64) {
	for _, q := range sharing(g.procs, p.mm) {
		g.logf("unmap %s %d %x %x\n", seconds(g.now), q.pid, start, end)
	}
}

// movedTo logs an mremap.
func (g *generator) movedTo(p *process, from uint64, v *vma) {
	g.unmapped(p, from, from+v.end-v.start)
	g.mapped(p, v)
}

// String returns the mapping as logs have it.
func (v *vma) String() string {
	perms, ino, kind, id, name := "r-xp", uint64(0), "anonymous", "-", ""
	if v.shared {
		perms = "r-xs"
	}
	if o := v.open; o != nil {
		ino, kind, id, name = o.file.ino, "file", fmt.Sprintf("%x", o.file.id), o.file.name()
		switch {
		case o.file.memfd:
			kind = "memfd"
		case o.file.sysv:
			kind, id = "sysv", "-"
		case o.file.deleted:
			kind = "deleted"
		}
	}
	return fmt.Sprintf("%x-%x %s %x fe:03 %d 0 %s %s %s", v.start, v.end, perms, v.offset, ino, kind, id, name)
}

// loseLog begins and ends times of which the log has lost records.
func (g *generator) loseLog() {
	switch {
	case g.losing && g.chance(3):
		g.endLoss()
	case !g.losing && g.rng.IntN(1500) == 0:
		g.losing, g.lostFrom, g.lostLines = true, g.now, 0
	}
}

// endLoss reports the loss and reads all processes again, as a side band does.
func (g *generator) endLoss() {
	g.losing = false
	g.tick()
	g.logf("lost %s %s 0 %d\n", seconds(g.now), seconds(g.lostFrom), max(g.lostLines, 1))
	g.tick()
	for _, p := range g.procs {
		g.reading(p)
	}
	for pid := range g.pid + 1 {
		if !g.lives(pid) && pid >= 100 {
			g.logf("gone %s %d\n", seconds(g.now), pid)
		}
	}
	g.compare()
	g.missing = nil
	g.logf("sure %s\n", seconds(g.tick()))
	g.logf("until %s\n", seconds(g.tick()))
}

func (g *generator) lives(pid int) bool {
	for _, p := range g.procs {
		if p.pid == pid {
			return true
		}
	}
	return false
}

// reading logs all that a process has. It proves nothing about times before the
// loss.
func (g *generator) reading(p *process) {
	g.tick() // each has its own time
	n := 0
	text := ""
	for i := range p.mm.vmas {
		if v := &p.mm.vmas[i]; v.exec {
			n++
			text += " " + v.String() + "\n"
		}
	}
	vdso := vma{start: p.mm.vdso, end: p.mm.vdso + 2*page}
	n++
	text += strings.Replace(" "+vdso.String(), "anonymous - ", "vdso - [vdso]", 1) + "\n"
	g.logf("read %s %s %d %d all:%d %s\n%s", seconds(g.now), seconds(g.lostFrom), p.pid, p.pid, n, p.comm, text)
	for _, t := range p.threads {
		g.logf("seen %s %d %d\n", seconds(g.now), p.pid, t.tid)
	}
	for _, t := range g.missing {
		if t.proc == p {
			g.logf("exit %s %d %d\n", seconds(g.now), p.pid, t.tid)
		}
	}
}
