package histgen

import (
	"bytes"
	"fmt"
	"slices"
)

// poller reads what processes have mapped, one after the other, over and over. Of each
// it writes what has changed, so that without notes a pause looks as if nothing had.
type poller struct {
	next   int64 // when it reads again
	last   map[int]*polled
	tids   bytes.Buffer
	listed map[int]bool
}

// polled is what was read of a process.
type polled struct {
	body        string
	out         bytes.Buffer
	since, last int64 // the first and the last reading of those close together
}

const (
	// slow is how much slower than others a machine is on which mappings are polled.
	slow = 400
	// pollEvery is how often the processes are read.
	pollEvery = 8e6
)

func newPoller() *poller {
	return &poller{last: make(map[int]*polled), listed: make(map[int]bool)}
}

// poll reads all processes, if it is time to.
func (p *poller) poll(g *generator) {
	if g.now < p.next {
		return
	}
	for _, q := range g.procs {
		g.now += 20_000 + int64(g.rng.IntN(100_000))
		p.read(g, q)
	}
	p.next = g.now + pollEvery
	if g.cfg.Pauses && g.chance(2) {
		p.next = g.now + pollEvery*int64(2+g.rng.IntN(100))
	}
}

func (p *poller) read(g *generator, q *process) {
	for _, t := range q.threads {
		if !p.listed[t.tid] {
			p.listed[t.tid] = true
			fmt.Fprintf(&p.tids, "%d %d\n", t.tid, q.pid)
		}
	}
	last := p.last[q.pid]
	if last == nil {
		last = new(polled)
		p.last[q.pid] = last
	}
	body := q.mm.dump(g.cfg.IDs)
	head := fmt.Sprintf(" pid=%d comm=%s exe=%s\n", q.pid, q.comm, q.mm.exe.name())
	if last.body == head+body {
		if g.cfg.Notes && g.now-last.last > 2*pollEvery {
			last.note()
			last.since = g.now
		}
		last.last = g.now
		return
	}
	if g.cfg.Notes {
		last.note()
	}
	last.body, last.since, last.last = head+body, g.now, g.now
	fmt.Fprintf(&last.out, "### t=%s%s%s", seconds(g.now), head, body)
}

// note writes that the process was read again and again, and had not changed.
func (x *polled) note() {
	if x.last > 0 {
		fmt.Fprintf(&x.out, "# read from=%s until=%s every=%s\n", seconds(x.since), seconds(x.last), seconds(2*pollEvery))
	}
}

// files returns the dump; a nil poller has none.
func (p *poller) files(notes bool) map[string][]byte {
	if p == nil {
		return nil
	}
	files := map[string][]byte{"tids.txt": p.tids.Bytes()}
	for pid, x := range p.last {
		if notes {
			x.note()
		}
		files[fmt.Sprintf("%d.maps", pid)] = x.out.Bytes()
	}
	return files
}

// dump returns what /proc/PID/maps has.
func (m *mm) dump(ids bool) string {
	var b bytes.Buffer
	var known []uint64
	for i := range m.vmas {
		v := &m.vmas[i]
		perms, ino, name := []byte("r--p"), uint64(0), ""
		if v.exec {
			perms[2] = 'x'
		}
		if v.shared {
			perms[3] = 's'
		}
		dev := "00:00"
		if v.open != nil {
			ino, name, dev = v.open.file.ino, v.open.file.name(), "fe:03"
		}
		fmt.Fprintf(&b, "%x-%x %s %08x %s %d %s\n", v.start, v.end, perms, v.offset, dev, ino, name)
		if ids && v.open != nil && !v.open.file.sysv && !slices.Contains(known, ino) {
			known = append(known, ino)
			fmt.Fprintf(&b, "# %s %d build_id=%x\n", dev, ino, v.open.file.id)
		}
	}
	top := uint64(0x7ffe00000000) + m.vdso&0xffff000
	if m.fixed {
		top = 0x7ffffffff000
	}
	lines := []string{fmt.Sprintf("%x-%x r-xp 00000000 00:00 0 [vdso]\n", m.vdso, m.vdso+2*page),
		fmt.Sprintf("%x-%x rw-p 00000000 00:00 0 [stack]\n", top-0x21000, top)}
	if m.vdso > top {
		slices.Reverse(lines)
	}
	return b.String() + lines[0] + lines[1]
}
