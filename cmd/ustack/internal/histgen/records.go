package histgen

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// head returns what a line of the trace begins with, in time as text has it.
func (g *generator) head(t *thread) string {
	us := (g.tick() + 500) / 1000
	return fmt.Sprintf("%16s-%-7d [%03d] ..... %5d.%06d: ", t.proc.comm, t.tid, t.cpu, us/1e6, us%1e6)
}

// record writes a record of the trace, or loses it.
func (g *generator) record(t *thread, text string) {
	line := g.head(t) + text
	if g.traceLoss > 0 {
		g.traceLoss--
		g.traceLost++
		return
	}
	if g.traceLost > 0 {
		for cpu := range 4 {
			fmt.Fprintf(g.trace, "CPU:%d [LOST %d EVENTS]\n", cpu, g.traceLost)
		}
		g.traceLost = 0
	}
	fmt.Fprintln(g.trace, line)
}

// enter begins a system call, with its cookie and its raw stack.
func (g *generator) enter(t *thread) {
	g.calls++
	g.cookies++
	c := &call{index: g.calls, cookie: (2*g.cookies+1)<<32 | uint64(t.cpu+1), stack: g.addresses(t.proc.mm)}
	t.call = c
	g.open = append(g.open, t)
	g.record(t, fmt.Sprintf("sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0x%x)", c.index))
	if g.cfg.Dialect == Stock {
		g.stock(t, c)
		return
	}
	g.record(t, fmt.Sprintf("cookie=%x", c.cookie))
	raw := c.stack[:min(len(c.stack), rawDepth)]
	for _, addr := range raw {
		c.raw = append(c.raw, t.proc.mm.frame(addr))
	}
	if g.cfg.Raw && !g.chance(3) {
		var b strings.Builder
		for _, addr := range raw {
			fmt.Fprintf(&b, " %x", addr)
		}
		g.logf("stack %s %d%s\n", seconds(g.now), t.tid, b.String())
	}
}

// addresses returns a stack: mostly code, and what frame pointers find that are
// none.
func (g *generator) addresses(m *mm) []uint64 {
	var code []vma
	for _, v := range m.vmas {
		if v.exec {
			code = append(code, v)
		}
	}
	n := 1 + g.rng.IntN(6)
	if g.chance(15) {
		n = 9 + g.rng.IntN(20)
	}
	list := make([]uint64, n)
	for i := range list {
		v := code[g.rng.IntN(len(code))]
		list[i] = v.start + uint64(g.rng.IntN(int((v.end-v.start)/16)))*16 + 5
		switch {
		case i > 0 && g.chance(3) && len(m.vmas) > 0:
			v := m.vmas[g.rng.IntN(len(m.vmas))]
			list[i] = v.start + uint64(g.rng.IntN(int(v.end-v.start)))
		case i > 0 && g.chance(1):
			list[i] = 0x123450
		}
	}
	return list
}

// frame returns what an address is in.
func (m *mm) frame(addr uint64) Frame {
	v := m.at(addr)
	if v == nil || v.open == nil {
		return Frame{}
	}
	return Frame{Path: v.open.file.path, BuildID: v.open.file.id, Offset: addr - v.start + v.offset, Exec: v.exec}
}

// finish returns from a system call, with the stack as it is unwound then.
func (g *generator) finish(t *thread) {
	c := t.call
	t.call, t.last = nil, c.stack
	g.open = slices.DeleteFunc(g.open, func(o *thread) bool { return o == t })
	if g.cfg.Dialect == Stock {
		return
	}
	g.record(t, "sys_futex -> 0x0")
	g.record(t, fmt.Sprintf("cookie=%x", c.cookie))
	var b strings.Builder
	fmt.Fprintf(&b, "<user stack unwind>\ncookie=%x", c.cookie)
	m := t.proc.mm
	var truth Stack
	for _, addr := range c.stack {
		v := m.at(addr)
		g.writeFrame(&b, v, addr)
		truth.Frames = append(truth.Frames, m.frame(addr))
	}
	fresh := hostile{g}.fresh(m, c.stack)
	truth.Raw = c.raw
	g.result.Stacks[c.index] = truth
	g.result.Frames += len(truth.Frames)
	if g.cfg.First {
		g.announce(t, fresh, c.cookie)
	}
	g.record(t, b.String())
	if !g.cfg.First {
		g.announce(t, fresh, c.cookie)
	}
}

// stock writes the raw stack of an event, as it is then.
func (g *generator) stock(t *thread, c *call) {
	var b strings.Builder
	b.WriteString("<user stack trace>")
	var truth Stack
	for _, addr := range c.stack[:min(len(c.stack), rawDepth)] {
		fmt.Fprintf(&b, "\n =>  <%016x>", addr)
	}
	g.record(t, b.String())
	for _, addr := range c.stack[:min(len(c.stack), rawDepth)] {
		truth.Frames = append(truth.Frames, t.proc.mm.frame(addr))
	}
	g.result.Stacks[c.index] = truth
	g.result.Frames += len(truth.Frames)
}

func (g *generator) announce(t *thread, list []*openFile, cookie uint64) {
	for _, o := range list {
		f := o.file
		if g.cfg.Dialect == Inode {
			g.record(t, fmt.Sprintf("inode_cache: inode=%d dev=[254:3] path=%s", f.ino, f.name()))
		} else {
			var words []string
			for i := 0; i < len(f.id); i += 4 {
				words = append(words, fmt.Sprintf("%#x", binary.LittleEndian.Uint32(f.id[i:])))
			}
			g.record(t, fmt.Sprintf("file_map: hash=%#x path=%s build_id={%s}", g.hash(o), f.name(), strings.Join(words, ",")))
		}
		g.record(t, fmt.Sprintf("cookie=%x", cookie))
	}
}

// writeFrame writes a frame as the kernel does, which looks at the mapping.
func (g *generator) writeFrame(b *strings.Builder, v *vma, addr uint64) {
	id, none, absent := "0x0", "0x0", "0xffffffff"
	if g.cfg.Dialect == Inode {
		none, absent = "0 : 0:0", "-1 : 0:0"
	}
	switch {
	case v == nil:
		id = absent
	case v.open == nil:
		id = none
	case g.cfg.Dialect == Inode:
		id = fmt.Sprintf("%d : 254:3", v.open.file.ino)
		addr += v.offset - v.start
	default:
		id = fmt.Sprintf("%#x", g.hash(v.open))
		addr += v.offset - v.start
	}
	fmt.Fprintf(b, "\n =>  <%016x> : %s", addr, id)
}

// hash returns the identifier of a struct file.
func (g *generator) hash(o *openFile) uint64 {
	if g.cfg.Dialect == ByInode {
		return uint64(uint32(o.file.ino*2654435761) | 1)
	}
	return g.slots[o.slot]
}

// key returns what the kernel's cache knows a file by.
func (g *generator) key(o *openFile) string {
	if g.cfg.Dialect == Inode {
		return fmt.Sprint("inode ", o.file.ino)
	}
	return fmt.Sprint("hash ", g.hash(o))
}
