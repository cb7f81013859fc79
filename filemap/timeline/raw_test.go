package timeline

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/rawstack"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// number is a frame of a deferred stack.
type number struct {
	offset uint64
	id     tracefs.Identifier
}

// deferred is a deferred stack that was asked for at a time, of which the kernel
// announced all identifiers as the file says, nil for nothing.
func deferred(tid int32, asked, t tracefs.Time, file *filemap.File, frames ...number) *resolve.Query {
	s := &resolve.Query{TID: tid, Time: t, Timed: true, Deferred: true, Asked: asked}
	for _, f := range frames {
		s.Frames = append(s.Frames, tracefs.Frame{Form: tracefs.FormIdentifier, ID: f.id, Addr: f.offset, HasAddr: true})
		o := resolve.Unnamed(filemap.Unannounced)
		switch {
		case f.id.NoVMA():
			o = resolve.Unnamed(filemap.NoVMA)
		case f.id.NoFile():
			o = resolve.Unnamed(filemap.Anonymous)
		case file != nil:
			o = resolve.Named(file, filemap.Announced)
		}
		s.Attributions = append(s.Attributions, o)
	}
	return s
}

func hash(h uint64) tracefs.Identifier { return tracefs.HashIdentifier(h) }

// world is a judge with what it judges by.
type world struct {
	spaces *space.Spaces
	stacks *rawstack.Stacks
	opt    Options
	j      *Attributor
}

func newWorld(change func(*Options)) *world {
	w := &world{spaces: space.New(), stacks: rawstack.New(0)}
	w.opt = Options{Spaces: w.spaces, Threads: oneThread{}, Stacks: w.stacks, Unseen: nothingUnseen, Stamp: TextStamp()}
	if change != nil {
		change(&w.opt)
	}
	w.j = New(w.opt)
	return w
}

// is judges a stack and holds what became of its frames against what is wanted.
func (w *world) is(t *testing.T, what string, s *resolve.Query, want ...string) {
	t.Helper()
	w.j.Attribute(s)
	for k := range want {
		if got := said(&s.Attributions[k]); got != want[k] {
			t.Errorf("%s: frame %d is %q, want %q", what, k, got, want[k])
		}
	}
}

var gone = &filemap.File{Path: "/lib/gone"}

// TestRawProves: the raw address says what a frame is in, whatever was announced.
func TestRawProves(t *testing.T) {
	w := newWorld(nil)
	w.spaces.MapExact(1, elf("/lib/one", 0x100000, 0x110000, 0x1000), 1000)
	w.spaces.MapExact(1, elf("/lib/two", 0x200000, 0x210000, 0x1000), 1000)
	w.spaces.MapExact(1, memory("", 0x300000, 0x301000), 1000)
	w.spaces.MapExact(1, memory("[vdso]", 0x7ffff0400000, 0x7ffff0402000), 1000)
	shared := memory("/dev/zero (deleted)", 0x500000, 0x502000)
	shared.Kind = procmap.SharedAnon
	w.spaces.MapExact(1, shared, 1000)
	data := elf("/lib/two", 0x600000, 0x601000, 0x20000)
	data.Perms = procmap.Read
	w.spaces.MapExact(1, data, 1000)
	w.stacks.Add(1, 5100, []uint64{0x100234, 0x200678, 0x300010, 0x7ffff0400b2f, 0x500400, 0x600008, 0xffffffffff600400, 0x100300})
	w.is(t, "all kinds", deferred(1, 5000, 9000, gone,
		number{0x1234, hash(1)}, number{0x1678, hash(2)}, number{0x300010, hash(0)}, number{0xb2f, hash(0)}, number{0x400, hash(3)},
		number{0x20008, hash(2)}, number{0xffffffffff600400, hash(0xffffffff)}, number{0x1300, hash(1)},
		number{0x1777, hash(2)}, number{0x1777, hash(9)}),
		"/lib/one+0x1234 verified", "/lib/two+0x1678 verified", "[anon] anonymous", "[vdso] +0xb2f vdso", "/dev/zero (deleted) anonymous",
		"not-code", "no-vma", "/lib/one+0x1300 verified",
		"/lib/two+0x0 verified", "contradicted") // deeper: the first by its identifier
	w.is(t, "no raw stack, and identifiers proven before", deferred(1, 20_000, 21_000, gone, number{0x1400, hash(1)}, number{0x1400, hash(8)}),
		"/lib/one+0x0 verified", "contradicted")
	// An offset that is not that of the address proves nothing: something else was
	// mapped there than is known.
	w.stacks.Add(1, 30_100, []uint64{0x100234})
	w.is(t, "another offset", deferred(1, 30_000, 31_000, gone, number{0x5234, hash(7)}), "contradicted")
}

// TestRawSigreturn: the stack of a call of sigreturn(2) is of what the signal has
// interrupted, the raw one of the handler. They can have one offset, in files of equal layout.
func TestRawSigreturn(t *testing.T) {
	w := newWorld(nil)
	w.spaces.MapExact(1, elf("/lib/handler", 0x100000, 0x110000, 0x1000), 1000)
	w.spaces.MapExact(1, elf("/lib/interrupted", 0x200000, 0x210000, 0x1000), 1000)
	w.stacks.Add(1, 5100, []uint64{0x100234, 0x200300})
	frames := []number{{0x1234, hash(2)}, {0x1300, hash(2)}}
	s := deferred(1, 5000, 9000, nil, frames...)
	s.Jumped = true
	w.is(t, "a jump", s, "unannounced", "unannounced")
	w.stacks.Add(1, 10_100, []uint64{0x200234, 0x200300})
	w.is(t, "a call", deferred(1, 10_000, 11_000, nil, frames...), "/lib/interrupted+0x1234 verified", "/lib/interrupted+0x1300 verified")
	s = deferred(1, 15_000, 19_000, nil, frames...)
	s.Jumped = true
	w.stacks.Add(1, 15_100, []uint64{0x100234, 0x200300})
	w.is(t, "a jump, and the identifier is known", s, "/lib/interrupted+0x0 verified", "/lib/interrupted+0x0 verified")
}

// TestRawLeftOut: ustack has found frames that the kernel has left out, which raw stacks do
// not have. What is there is what was mapped at the time of the deferred stack.
func TestRawLeftOut(t *testing.T) {
	w := newWorld(nil)
	w.spaces.MapExact(1, elf("/lib/one", 0x100000, 0x110000, 0x1000), 1000)
	w.spaces.MapExact(1, elf("/lib/two", 0x200000, 0x210000, 0x1000), 1000)
	w.stacks.Add(1, 5100, []uint64{0x100234, 0x100300, 0x200400})
	s := deferred(1, 5000, 9000, gone, number{0x1234, hash(1)}, number{0x1300, hash(1)}, number{0x1400, hash(2)}, number{0x1500, hash(2)})
	left := tracefs.Frame{Form: tracefs.FormPlain, Addr: 0x200678, HasAddr: true}
	left.SetUnwound(tracefs.ByCFI, tracefs.NoStop)
	for _, at := range []int{2, 1, 1} {
		s.Frames = slices.Insert(s.Frames, at, left)
		s.Attributions = slices.Insert(s.Attributions, at, resolve.Unnamed(filemap.NoAddressSpace))
	}
	const found = "/lib/two+0x1678 verified"
	w.is(t, "frames between", s, "/lib/one+0x1234 verified", found, found, "/lib/one+0x1300 verified", found, "/lib/two+0x1400 verified", "/lib/two+0x0 verified")
}

// TestRawReuse: an identifier is an open file only as long as a mapping of it stays.
func TestRawReuse(t *testing.T) {
	w := newWorld(nil)
	one, two := elf("/lib/one", 0x100000, 0x110000, 0), elf("/lib/two", 0x100000, 0x110000, 0)
	w.spaces.MapExact(1, one, 1000)
	w.stacks.Add(1, 5100, []uint64{0x100234})
	fits := &filemap.File{Path: "/lib/two"}
	w.is(t, "proof", deferred(1, 5000, 6000, fits, number{0x234, hash(1)}), "/lib/one+0x234 verified")
	w.is(t, "of use", deferred(1, 7000, 8000, fits, number{0x300, hash(1)}), "/lib/one+0x0 verified")
	w.spaces.MapExact(1, two, 10_000)
	w.is(t, "another mapping is there", deferred(1, 11_000, 12_000, nil, number{0x300, hash(1)}), "unannounced")
	w.is(t, "and the kernel's word is a claim", deferred(1, 11_000, 12_000, fits, number{0x300, hash(1)}), "/lib/two+0x0 claimed")
	w.is(t, "the time before is proven still", deferred(1, 8000, 9000, fits, number{0x300, hash(1)}), "/lib/one+0x0 verified")
	w.stacks.Add(1, 13_100, []uint64{0x100234})
	w.is(t, "a new proof", deferred(1, 13_000, 14_000, gone, number{0x234, hash(1)}, number{0x300, hash(1)}), "/lib/two+0x234 verified", "/lib/two+0x0 verified")
	w.is(t, "is of use", deferred(1, 15_000, 16_000, gone, number{0x300, hash(1)}), "/lib/two+0x0 verified")
	w.spaces.Unmap(1, 0x100000, 0x110000, 20_000)
	w.spaces.MapExact(1, elf("/lib/two", 0x500000, 0x510000, 0), 21_000) // opened anew
	w.is(t, "until it goes", deferred(1, 22_000, 23_000, nil, number{0x300, hash(1)}), "unannounced")
}

// TestRawUnseen: where unmapping is not reported, only the stack itself is proof.
func TestRawUnseen(t *testing.T) {
	w := newWorld(func(o *Options) { o.Unseen = nil })
	w.spaces.MapExact(1, elf("/lib/one", 0x100000, 0x110000, 0), 1000)
	w.stacks.Add(1, 5100, []uint64{0x100234})
	w.is(t, "proof", deferred(1, 5000, 6000, nil, number{0x234, hash(1)}, number{0x300, hash(1)}), "/lib/one+0x234 verified", "/lib/one+0x0 verified")
	w.is(t, "of little use", deferred(1, 7000, 8000, nil, number{0x300, hash(1)}), "/lib/one+0x0 claimed")
}

// TestRawFork: a copy of a mapping has the same open file, one that was made after
// has not.
func TestRawFork(t *testing.T) {
	w := newWorld(nil)
	one := elf("/lib/one", 0x100000, 0x110000, 0)
	w.spaces.MapExact(1, one, 1000)
	w.stacks.Add(1, 5100, []uint64{0x100234})
	w.is(t, "proof", deferred(1, 5000, 6000, nil, number{0x234, hash(1)}), "/lib/one+0x234 verified")
	w.spaces.Fork(1, 2, 10_000)
	w.spaces.Exit(1, 20_000)
	w.is(t, "child", deferred(2, 30_000, 31_000, nil, number{0x300, hash(1)}), "/lib/one+0x0 verified")
	w.spaces.Exec(2, "next", 40_000)
	w.spaces.MapExact(2, one, 40_100)
	w.is(t, "after its exec", deferred(2, 50_000, 51_000, nil, number{0x300, hash(1)}), "unannounced")
}

// TestRawGap: if records of what was mapped are missing in between, nothing is
// proven any more.
func TestRawGap(t *testing.T) {
	w := newWorld(func(o *Options) {
		o.Gap = func(from, to tracefs.Time) bool { return from <= 21_000 && to >= 20_000 }
	})
	w.spaces.MapExact(1, elf("/lib/one", 0x100000, 0x110000, 0), 1000)
	w.stacks.Add(1, 5100, []uint64{0x100234})
	w.is(t, "proof", deferred(1, 5000, 6000, nil, number{0x234, hash(1)}), "/lib/one+0x234 verified")
	w.is(t, "before", deferred(1, 18_000, 19_000, nil, number{0x300, hash(1)}), "/lib/one+0x0 verified")
	w.is(t, "after", deferred(1, 25_000, 26_000, nil, number{0x300, hash(1)}), "/lib/one+0x0 claimed")
}

// TestRawExec: the raw stack of the program before proves nothing of the next one,
// which has the same addresses.
func TestRawExec(t *testing.T) {
	w := newWorld(nil)
	w.spaces.MapExact(1, elf("/bin/one", 0x401000, 0x402000, 0x1000), 1000)
	w.stacks.Add(1, 5100, []uint64{0x401234}) // entry into execve
	w.spaces.Exec(1, "two", 6000)
	w.spaces.Loading(1, 6000)
	w.spaces.MapExact(1, elf("/bin/two", 0x401000, 0x402000, 0x1000), 6500)
	w.stacks.Add(1, 6800, []uint64{0x401234}) // not yet run
	w.spaces.Loaded(1, 7000)
	s := deferred(1, 5000, 9000, nil, number{0x1234, hash(1)})
	w.is(t, "no stack of the new program", s, "unannounced")
	w.stacks.Add(1, 7500, []uint64{0x401234})
	w.is(t, "one", deferred(1, 5000, 9000, nil, number{0x1234, hash(1)}), "/bin/two+0x1234 verified")
}

// TestRawLost: a raw stack of the entry before is not taken for one that is missing.
func TestRawLost(t *testing.T) {
	w := newWorld(nil)
	w.spaces.MapExact(1, elf("/lib/one", 0x100000, 0x110000, 0), 1000)
	w.spaces.MapExact(1, elf("/lib/two", 0x200000, 0x210000, 0), 1000)
	w.stacks.Add(1, 9700, []uint64{0x100234}) // within the precision of the stamp
	w.is(t, "nothing is missing", deferred(1, 10_000, 12_000, nil, number{0x234, hash(1)}), "/lib/one+0x234 verified")
	w.stacks.Lose(3, 9800, 10_500)
	w.is(t, "something is", deferred(1, 10_000, 12_000, nil, number{0x234, hash(2)}), "unannounced")
	w.stacks.Add(1, 20_000, []uint64{0x100234})
	for name, s := range map[string]*resolve.Query{
		"asked for later":  deferred(1, 21_000, 22_000, nil, number{0x234, hash(3)}),
		"came before":      deferred(1, 18_000, 19_000, nil, number{0x234, hash(4)}),
		"not asked":        deferred(1, 0, 22_000, nil, number{0x234, hash(5)}),
		"another thread's": deferred(2, 19_000, 22_000, nil, number{0x234, hash(6)}),
	} {
		w.is(t, name, s, "unannounced")
	}
}

// TestRawInode: the number of an inode is that of its file while it is mapped.
func TestRawInode(t *testing.T) {
	w := newWorld(nil)
	one := elf("/lib/one", 0x100000, 0x110000, 0)
	one.Inode = 8
	w.spaces.MapExact(1, one, 1000)
	w.spaces.MapExact(1, elf("/lib/two", 0x200000, 0x210000, 0), 1000)
	w.is(t, "known", deferred(1, 5000, 6000, gone, number{0x300, tracefs.InodeIdentifier(8, 8, 0)}, number{0x300, tracefs.InodeIdentifier(7, 8, 0)},
		number{0x90000, tracefs.InodeIdentifier(7, 8, 0)}, number{0x300, tracefs.InodeIdentifier(9, 8, 0)}),
		"/lib/one+0x0 verified", "/lib/two+0x0 verified", "not-code", "contradicted")
}

// TestRawAnother: what the process is thought to have had is not what the kernel saw,
// if that has another inode.
func TestRawAnother(t *testing.T) {
	w := newWorld(nil)
	one := elf("/lib/one", 0x100000, 0x110000, 0)
	one.Inode = 8
	w.spaces.MapExact(1, one, 1000)
	w.stacks.Add(1, 5100, []uint64{0x100234, 0x100300, 0x100400})
	w.is(t, "inodes", deferred(1, 5000, 6000, gone, number{0x234, tracefs.InodeIdentifier(8, 8, 0)}, number{0x300, tracefs.InodeIdentifier(9, 8, 0)},
		number{0x400, tracefs.InodeIdentifier(9, 254, 0)}), // of an overlay
		"/lib/one+0x234 verified", "contradicted", "/lib/one+0x400 verified")
}

// chaos is a machine of some processes that open, map, unmap, fork, execute and end,
// with files of equal layout and struct files whose memory is used again at once.
type chaos struct {
	rnd   *rand.Rand
	w     *world
	t     tracefs.Time
	refs  map[uint64]int    // mappings of each struct file
	is    map[uint64]string // the file it is of
	said  map[uint64]*filemap.File
	procs map[int]map[uint64]uint64 // struct file by address
	blind bool                      // what is unmapped goes unseen at times, and raw stacks are rare
	gaps  []between                 // those times
	gone  []unseen                  // in the last one
}

type between struct{ from, to tracefs.Time }

// unseen is what a process has unmapped unseen.
type unseen struct {
	pid int
	at  uint64
}

const (
	chaosSlots = 6
	chaosFiles = 5
	slotSize   = 0x10000
)

func chaosFile(n int) string { return "/lib/" + string(rune('a'+n)) }

// drop ends a mapping.
func (c *chaos) drop(pid int, at uint64) {
	if h, ok := c.procs[pid][at]; ok {
		delete(c.procs[pid], at)
		if c.refs[h]--; c.refs[h] == 0 {
			delete(c.refs, h)
		}
	}
}

// open maps a file: the first free struct file is taken.
func (c *chaos) open(pid int, at uint64) {
	h := uint64(1)
	for c.refs[h] > 0 {
		h++
	}
	c.drop(pid, at)
	name := chaosFile(c.rnd.IntN(chaosFiles))
	c.refs[h], c.is[h], c.procs[pid][at] = 1, name, h
	m := elf(name, at, at+slotSize, 0)
	m.Inode = 0
	c.w.spaces.MapExact(pid, m, c.t)
}

// end ends all mappings of a process.
func (c *chaos) end(pid int) {
	for at := range c.procs[pid] {
		c.drop(pid, at)
	}
}

// happen does something.
func (c *chaos) happen() {
	c.t += tracefs.Time(2000 + c.rnd.IntN(5000))
	pid, other := 1+c.rnd.IntN(4), 1+c.rnd.IntN(4)
	at := uint64(1+c.rnd.IntN(chaosSlots)) * slotSize
	switch n := c.rnd.IntN(40); {
	case n == 0 && pid != other:
		c.w.spaces.Exit(other, c.t)
		c.end(other)
		c.t += 2000
		c.w.spaces.Fork(pid, other, c.t)
		c.procs[other] = make(map[uint64]uint64)
		for at, h := range c.procs[pid] {
			c.procs[other][at] = h
			c.refs[h]++
		}
	case n == 1:
		c.w.spaces.Exec(pid, "x", c.t)
		c.end(pid)
	case n < 5 && c.unsure(c.t):
		c.gone = append(c.gone, unseen{pid, at})
		c.drop(pid, at)
	case n < 5:
		c.w.spaces.Unmap(pid, at, at+slotSize, c.t)
		c.drop(pid, at)
	case n == 39 && c.blind:
		c.look()
	case n < 10:
		c.open(pid, at)
	default:
		return
	}
	c.t += 2000
}

// look begins or ends a time in which what is unmapped goes unseen. At its end all
// processes are read.
func (c *chaos) look() {
	if !c.unsure(c.t) {
		c.gaps = append(c.gaps, between{c.t, space.Forever})
		return
	}
	for _, u := range c.gone {
		if _, ok := c.procs[u.pid][u.at]; !ok {
			c.w.spaces.Unmap(u.pid, u.at, u.at+slotSize, c.t)
		}
	}
	c.gone = nil
	c.gaps[len(c.gaps)-1].to = c.t
}

// unsure and unseen are what a history says of the times.
func (c *chaos) unsure(t tracefs.Time) bool { return c.unseen(t, t) }

func (c *chaos) unseen(from, to tracefs.Time) bool {
	return slices.ContainsFunc(c.gaps, func(g between) bool { return from < g.to && g.from <= to })
}

// stack makes a stack of a process, and what is true of it.
func (c *chaos) stack() (s *resolve.Query, truth []string) {
	pid := 1 + c.rnd.IntN(4)
	var addrs []uint64
	var frames []number
	for range 1 + c.rnd.IntN(12) {
		at := uint64(1+c.rnd.IntN(chaosSlots)) * slotSize
		h, ok := c.procs[pid][at]
		if !ok {
			continue
		}
		offset := uint64(c.rnd.IntN(slotSize))
		addrs, frames, truth = append(addrs, at+offset), append(frames, number{offset, hash(h)}), append(truth, c.is[h])
	}
	asked := c.t
	if len(addrs) > 0 && c.rnd.IntN(3) > 0 && (!c.blind || c.rnd.IntN(40) == 0) {
		c.w.stacks.Add(pid, asked+100, addrs[:min(len(addrs), 1+c.rnd.IntN(rawstack.Depth))])
	}
	c.t += 1000
	s = deferred(int32(pid), asked, c.t, nil, frames...)
	for k := range s.Frames {
		h := frames[k].id
		if c.said[frameHash(h)] == nil || c.rnd.IntN(30) == 0 { // the kernel's cache begins anew
			c.said[frameHash(h)] = &filemap.File{Path: truth[k]}
		}
		s.Attributions[k] = resolve.Named(c.said[frameHash(h)], filemap.Announced)
	}
	c.t += 1000
	return s, truth
}

func frameHash(id tracefs.Identifier) uint64 { return id.Hash() }

// TestRawChaos: whatever processes do, no frame gets a wrong file for sure. Where all
// of it is seen, hardly a claim is stale; where not, and raw stacks are rare, many are,
// and stay claims.
func TestRawChaos(t *testing.T) {
	for _, blind := range []bool{false, true} {
		n := new(chaosCounts)
		for seed := uint64(0); seed < 40 && n.wrong <= 10; seed++ {
			newChaos(seed, blind).run(t, seed, n)
		}
		t.Logf("blind %v: %+v", blind, *n)
		if n.lies == 0 || n.claims == 0 || !blind && n.proven*2 < n.frames || blind && (n.proven == 0 || n.late == 0 || n.stale == 0) {
			t.Errorf("blind %v: %+v: this is no test", blind, *n)
		}
		if !blind && n.stale*50 > n.claims {
			t.Errorf("%d of %d claims are stale", n.stale, n.claims)
		}
	}
}

// chaosCounts are frames: lies were announced as something else.
type chaosCounts struct{ frames, lies, proven, late, wrong, claims, stale int }

func newChaos(seed uint64, blind bool) *chaos {
	c := &chaos{rnd: rand.New(rand.NewPCG(seed, 7)), t: 1_000_000, refs: make(map[uint64]int), blind: blind,
		is: make(map[uint64]string), said: make(map[uint64]*filemap.File), procs: make(map[int]map[uint64]uint64)}
	c.w = newWorld(func(o *Options) { o.Unsure, o.Unseen = c.unsure, c.unseen })
	for pid := 1; pid <= 4; pid++ {
		c.procs[pid] = make(map[uint64]uint64)
		c.t += 2000
		c.open(pid, slotSize)
	}
	return c
}

func (c *chaos) run(t *testing.T, seed uint64, n *chaosCounts) {
	for range 600 {
		c.happen()
		s, truth := c.stack()
		for k := range truth {
			if s.Attributions[k].File.Path != truth[k] {
				n.lies++
			}
		}
		c.w.j.Attribute(s)
		for k := range truth {
			n.frames++
			o := &s.Attributions[k]
			switch {
			case o.File == nil:
			case o.Trust == filemap.Claimed:
				n.claims++
				if o.File.Path != truth[k] {
					n.stale++
				}
			default:
				n.proven++
				if o.Trust == filemap.Late {
					n.late++
				}
				if o.File.Path != truth[k] {
					n.wrong++
					t.Errorf("seed %d: frame %d of %d at %d is %s, and got %s", seed, k, s.TID, s.Time, truth[k], said(o))
				}
			}
		}
	}
}

// BenchmarkRaw is the cost of a deferred stack that is attributed by its raw one.
func BenchmarkRaw(b *testing.B) {
	w := newWorld(nil)
	for i := range uint64(40) {
		w.spaces.MapExact(1, elf("/lib/one", 0x100000*(i+1), 0x100000*(i+1)+0x10000, 0), 1000)
	}
	frames := []number{{0x100, hash(1)}, {0x200, hash(1)}, {0x300, hash(2)}, {0x400, hash(2)}, {0x500, hash(3)}}
	addrs := []uint64{0x100100, 0x100200, 0x200300, 0x200400, 0x300500}
	s := deferred(1, 5000, 6000, nil, frames...)
	b.ReportAllocs()
	t := tracefs.Time(5000)
	for b.Loop() {
		t += 10_000
		w.stacks.Add(1, t+100, addrs)
		s.Asked, s.Time = t, t+5000
		w.j.Attribute(s)
		if t%(1<<20) < 10_000 {
			w.stacks.Expire(t)
		}
	}
	if s.Attributions[4].File == nil {
		b.Error(said(&s.Attributions[4]))
	}
}
