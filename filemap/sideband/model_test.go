package sideband

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/format"
)

// The truth of TestHistories: memories of pages, and which process has which.
const (
	truthPages = 32
	truthPIDs  = 6 // from 100 on
	firstPID   = 100
)

type truthMemory [truthPages]string

// call is an mremap that was entered, or a munmap, by one of the process's threads.
type call struct {
	pid, tid       int
	from, n, to    int
	unmaps         bool
	fixed, happens bool
	done           bool
}

type truth struct {
	rnd    *rand.Rand
	ring   *testRing
	soft   *testRing
	t      uint64
	memory [truthPIDs]*truthMemory // nil: no such process
	calls  []*call
	// shown is what each process had at each time.
	shown []instant
}

type instant struct {
	t     uint64
	pages [truthPIDs]*truthMemory
}

const headerSize, idsSize = 8, 24 // of a record, and of what all have

// rawSample is a record of a tracepoint.
func rawSample(change change, pid, tid int, t uint64, values ...uint64) []byte {
	e := binary.NativeEndian
	b := make([]byte, headerSize+idsSize, 128)
	e.PutUint32(b, unix.PERF_RECORD_SAMPLE)
	e.PutUint32(b[headerSize:], uint32(pid))
	e.PutUint32(b[headerSize+4:], uint32(tid))
	e.PutUint64(b[headerSize+8:], t)
	b = e.AppendUint32(b, uint32(4+8*len(values)+4))
	b = e.AppendUint16(b, 1000+uint16(change))
	b = append(b, 0, 0)
	for _, v := range values {
		b = e.AppendUint64(b, v)
	}
	b = append(b, 0, 0, 0, 0)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	e.PutUint16(b[6:], uint16(len(b)))
	return b
}

// fakeTracepoints are those of rawSample.
func fakeTracepoints() (list []Tracepoint) {
	for i := range tracepointSpecs {
		spec := &tracepointSpecs[i]
		tp := Tracepoint{spec: spec, id: 1000 + uint16(spec.change)}
		for k := range spec.fields {
			tp.fields = append(tp.fields, format.Field{Offset: 4 + 8*k, Size: 8})
		}
		list = append(list, tp)
	}
	return list
}

func (w *truth) sample(change change, pid, tid int, values ...uint64) {
	w.soft.write(rawSample(change, pid, tid, w.t, values...))
}

func (w *truth) maps(pid, from, to, offset int, name string) {
	w.ring.write(rawMap(pid, pid, uint64(from)*page, uint64(to-from)*page, uint64(offset)*page, unix.PROT_EXEC|unix.PROT_READ, unix.MAP_PRIVATE, name, w.t))
	for i := from; i < to; i++ {
		w.memory[pid-firstPID][i] = fmt.Sprintf("%s+%#x", name, (offset+i-from)*page)
	}
}

// happen does something, of which only the records are seen.
func (w *truth) happen() {
	k, other := w.rnd.IntN(truthPIDs), w.rnd.IntN(truthPIDs)
	pid, mem := firstPID+k, w.memory[k]
	w.t += 1000
	if mem == nil {
		w.ring.write(rawTask(unix.PERF_RECORD_FORK, pid, 1, pid, 1, w.t, 0))
		w.memory[k] = new(truthMemory)
		return
	}
	from := w.rnd.IntN(truthPages)
	to := min(truthPages, from+1+w.rnd.IntN(8))
	addr, size := uint64(from)*page, uint64(to-from)*page
	switch w.rnd.IntN(15) {
	case 0, 1:
		w.sample(unmapping, pid, pid, addr, size)
		w.t += 10
		w.sample(unmapReturned, pid, pid, 0)
		clear(mem[from:to])
	case 2: // data
		w.sample(mapOver, pid, pid, addr, size, unix.MAP_FIXED)
		clear(mem[from:to])
	case 3, 4, 5, 6:
		w.sample(mapOver, pid, pid, addr, size, unix.MAP_FIXED)
		w.t += 10
		w.maps(pid, from, to, w.rnd.IntN(50), fmt.Sprintf("/lib%d.so", w.rnd.IntN(4)))
	case 7:
		w.enter(pid, from, to)
	case 8, 9, 10:
		w.leave()
	case 11:
		w.fork(k, other)
	case 12:
		if w.calling(pid) == nil {
			w.ring.write(rawComm(pid, pid, unix.PERF_RECORD_MISC_COMM_EXEC, "program", w.t, 0))
			w.memory[k] = new(truthMemory)
		}
	case 13:
		if w.calling(pid) == nil && w.rnd.IntN(2) == 0 {
			w.ring.write(rawTask(unix.PERF_RECORD_EXIT, pid, 1, pid, 1, w.t, 0))
			w.memory[k] = nil
		}
	case 14:
		if w.rnd.IntN(2) == 0 {
			w.enterUnmap(pid, from, to)
		}
	}
}

// enterUnmap calls munmap in a third thread of a process. It happens at some moment before
// it returns.
func (w *truth) enterUnmap(pid, from, to int) {
	c := &call{pid: pid, tid: pid + 2000, from: from, n: to - from, unmaps: true}
	for _, o := range w.calls {
		if o.tid == c.tid {
			return
		}
	}
	w.sample(unmapping, pid, c.tid, uint64(from)*page, uint64(c.n)*page)
	w.calls = append(w.calls, c)
}

// calling is the call that a process is in.
func (w *truth) calling(pid int) *call {
	for _, c := range w.calls {
		if c.pid == pid && !c.done {
			return c
		}
	}
	return nil
}

// moving reports whether a process is in mremap.
func (w *truth) moving(pid int) bool {
	return slices.ContainsFunc(w.calls, func(c *call) bool { return c.pid == pid && !c.unmaps })
}

// enter calls mremap in a second thread of a process. It happens at some moment
// before it returns.
func (w *truth) enter(pid, from, to int) {
	if w.moving(pid) {
		return
	}
	c := &call{pid: pid, tid: pid + 1000, from: from, n: to - from, fixed: w.rnd.IntN(2) == 0, to: w.rnd.IntN(truthPages - (to - from) + 1)}
	flags := uint64(unix.MREMAP_MAYMOVE)
	if c.fixed {
		flags |= unix.MREMAP_FIXED
	}
	w.sample(moving, pid, c.tid, uint64(from)*page, uint64(c.n)*page, uint64(c.n)*page, flags, uint64(c.to)*page)
	w.calls = append(w.calls, c)
}

// leave lets a call of mremap happen, or return.
func (w *truth) leave() {
	if len(w.calls) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.calls))
	c := w.calls[i]
	switch {
	case !c.happens && c.unmaps:
		c.happens = true
		clear(w.memory[c.pid-firstPID][c.from:][:c.n])
		return
	case !c.happens:
		c.happens = true
		w.move(c)
		return
	case c.unmaps:
		w.sample(unmapReturned, c.pid, c.tid, 0)
	case c.to < 0:
		w.sample(moved, c.pid, c.tid, ^uint64(unix.EFAULT)+1)
	default:
		w.sample(moved, c.pid, c.tid, uint64(c.to)*page)
	}
	c.done = true
	w.calls = append(w.calls[:i], w.calls[i+1:]...)
}

// move is what mremap does, or does not: to is then -1.
func (w *truth) move(c *call) {
	mem := w.memory[c.pid-firstPID]
	overlap := c.to < c.from+c.n && c.from < c.to+c.n
	refused := w.rnd.IntN(4) == 0 || overlap
	for i := range c.n {
		refused = refused || mem[c.from+i] == "" || !c.fixed && mem[c.to+i] != ""
	}
	if refused {
		if c.fixed && !overlap && w.rnd.IntN(2) == 0 {
			clear(mem[c.to : c.to+c.n])
		}
		c.to = -1
		return
	}
	code := append([]string(nil), mem[c.from:c.from+c.n]...)
	clear(mem[c.from : c.from+c.n])
	copy(mem[c.to:], code)
}

// fork makes a process, with memory of its own or with that of its parent.
func (w *truth) fork(k, other int) {
	if w.memory[other] != nil {
		return
	}
	parent, child := firstPID+k, firstPID+other
	w.ring.write(rawTask(unix.PERF_RECORD_FORK, child, parent, child, parent, w.t, 0))
	if w.rnd.IntN(2) == 0 {
		w.t += 10
		w.ring.write(rawSample(sharing, parent, parent, w.t, unix.CLONE_VM))
		w.memory[other] = w.memory[k]
		return
	}
	own := *w.memory[k]
	w.memory[other] = &own
}

func (w *truth) show() {
	m := instant{t: w.t}
	for k, mem := range w.memory {
		if mem != nil {
			is := *mem
			m.pages[k] = &is
		}
	}
	w.shown = append(w.shown, m)
}

// TestHistories holds what is known by the records against what processes do:
// mmap, munmap and mremap that take their time, fork, vfork, exec, exit. Nothing that
// is sure may be wrong, and little may be unknown.
func TestHistories(t *testing.T) {
	capturetest.SkipShort(t)
	frames, known := 0, 0
	for seed := range uint64(60) {
		w := &truth{rnd: rand.New(rand.NewPCG(seed, 4)), ring: fakeRing(0, 1<<20), soft: fakeRing(0, 1<<20)}
		b := fakeBand(w.ring, w.soft)
		b.rings.tracepoints, w.soft.soft = fakeTracepoints(), true
		w.t = uint64(b.Now()) - 1e9
		for range 700 {
			w.happen()
			w.show()
		}
		if d, err := b.Drain(); err != nil || d.Lost+d.Unseen > 0 || d.Malformed > 0 || d.Doubt || d.Unsure {
			t.Fatalf("seed %d: %+v, %v", seed, d, err)
		}
		for _, m := range w.shown {
			for k, pages := range m.pages {
				for i := range truthPages {
					want := ""
					if pages != nil {
						want = pages[i]
					}
					p, ok := b.History.Spaces.Lookup(firstPID+k, uint64(i)*page, tracefs.Time(m.t))
					got := ""
					if ok && !p.Late {
						got = fmt.Sprintf("%s+%#x", p.Mapping.File.Name, p.Offset)
					}
					if got != "" && got != want {
						t.Fatalf("seed %d: page %d of process %d at %d is %q, in truth %q", seed, i, firstPID+k, m.t, got, want)
					}
					if want != "" {
						frames++
						if got != "" {
							known++
						}
					}
				}
			}
		}
	}
	t.Logf("%d frames, %d known, 0 wrong", frames, known)
	if known < frames*85/100 {
		t.Errorf("only %d of %d are known", known, frames)
	}
}
