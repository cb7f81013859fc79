package tracegen

import (
	"fmt"
	"math/bits"
	"strconv"
)

// cookie writes the record that asks for a stack.
func (g *generator) cookie(c *cpu, t *task) {
	if t.cookie == 0 {
		t.cookie = c.counter<<32 | uint64(c.id+1)
		c.counter += 2
	}
	g.cookieRecord(c, t)
	if c.next != nil {
		g.pool = append(g.pool, t)
		g.run(c)
		return
	}
	c.now += int64(g.r.between(1_500, 20_000))
}

func (g *generator) cookieRecord(c *cpu, t *task) {
	start := g.begin(c, t, t.flags)
	g.buf = append(g.buf, "cookie="...)
	g.buf = strconv.AppendUint(g.buf, t.cookie, 16)
	g.buf = append(g.buf, '\n')
	if g.commit(c, start, 1) {
		g.stats.Cookies++
	}
}

func (g *generator) stack(c *cpu, t *task) {
	p := t.proc
	ch := p.prog.chain(g.r, t.script)
	if p.warm > 0 && p.prog.linker != nil {
		p.warm--
		ch = p.prog.linker
	}
	special := g.specialFrame(p)

	g.userFlags(t)
	start := g.begin(c, t, t.flags)
	g.buf = append(g.buf, "<user stack unwind>\ncookie="...)
	g.buf = strconv.AppendUint(g.buf, t.cookie, 16)
	g.buf = append(g.buf, '\n')
	frames := ch.frames
	used := ch.used
	if special != nil {
		g.buf = append(g.buf, special.text...)
		frames = frames[1:]
		used = ch.tail
	}
	for i := range frames {
		f := &frames[i]
		g.buf = append(g.buf, f.text...)
		g.buf = append(g.buf, p.maps[f.slot].text...)
		g.buf = append(g.buf, '\n')
	}
	if g.commit(c, start, 2+len(ch.frames)) {
		g.stats.Stacks++
		g.stats.Frames += int64(len(ch.frames))
	}
	t.pend = used &^ p.announced
	p.announced |= t.pend
	t.flags = flagsUser
	if t.pend != 0 {
		c.now += int64(g.r.between(30_000, 90_000))
	} else {
		c.now += int64(g.r.between(3_000, 30_000))
	}
	g.renew()
}

// specialFrame returns what takes the place of a stack's first frame, if
// anything does.
func (g *generator) specialFrame(p *process) *frame {
	switch x := g.r.n(4096); {
	case x < 11:
		return &p.special[wild]
	case x < 74 && p.prog.jit:
		return &p.special[anonymous]
	case x < 74:
		return &p.special[vdso]
	}
	return nil
}

func (g *generator) announce(c *cpu, t *task) {
	i := bits.TrailingZeros32(t.pend)
	t.pend &^= 1 << i
	m := &t.proc.maps[i]
	start := g.begin(c, t, t.flags)
	g.buf = append(g.buf, "file_map: hash="...)
	g.buf = append(g.buf, m.text...)
	g.buf = append(g.buf, m.file.text...)
	if g.commit(c, start, 1) {
		g.stats.MappingEvents++
		if m.shown != nil && m.shown != m.file {
			g.stats.Rebindings++
		}
		m.shown = m.file
	}
	c.now += int64(g.r.between(1_000, 3_000))
}

// begin starts a record and returns where it starts.
func (g *generator) begin(c *cpu, t *task, flags string) int {
	if c.lost > 0 && c.drop == 0 {
		g.reportLoss(c)
	}
	start := len(g.buf)
	b := append(g.buf, t.head...)
	b = append(b, c.column...)
	b = append(b, flags...)
	b = append(b, ' ')
	us := uint64(c.now) / 1000
	g.buf = appendTime(b, us/1_000_000, us%1_000_000)
	return start
}

// appendTime appends a time as %5d.%06d and the colon after it.
func appendTime(b []byte, secs, us uint64) []byte {
	for limit := uint64(10_000); limit > 1 && secs < limit; limit /= 10 {
		b = append(b, ' ')
	}
	b = strconv.AppendUint(b, secs, 10)
	b = append(b, '.')
	for div := uint64(100_000); div > 0; div /= 10 {
		b = append(b, '0'+byte(us/div%10))
	}
	return append(b, ':', ' ')
}

// commit ends the record that began at start, or drops it when its CPU loses
// records. It reports whether the record is there.
func (g *generator) commit(c *cpu, start, lines int) bool {
	if c.until--; c.until <= 0 {
		c.until = g.lossDistance()
		c.drop = g.r.between(20, 600)
	}
	if c.drop > 0 {
		c.drop--
		c.lost++
		g.buf = g.buf[:start]
		return false
	}
	g.stats.Bytes += int64(len(g.buf) - start)
	g.stats.Lines += int64(lines)
	return true
}

func (g *generator) reportLoss(c *cpu) {
	start := len(g.buf)
	g.buf = fmt.Appendf(g.buf, "CPU:%d [LOST %d EVENTS]\n", c.id, c.lost)
	g.stats.Bytes += int64(len(g.buf) - start)
	g.stats.Lines++
	g.stats.Losses++
	g.stats.Lost += int64(c.lost)
	c.lost = 0
}
