package histgen

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

const page = 0x1000

// file is an inode with its contents.
type file struct {
	path    string
	id      [20]byte
	ino     uint64
	deleted bool
	memfd   bool
	sysv    bool // a segment of shmget(2)
	links   int  // 1 while the path leads here
	opens   int  // struct files
}

// name returns the file's path as the kernel prints it now.
func (f *file) name() string {
	if f.deleted {
		return f.path + " (deleted)"
	}
	return f.path
}

// openFile is a struct file: it lives while something is mapped from it.
type openFile struct {
	file *file
	slot int
	refs int
}

// vma is a mapping. open is nil for anonymous memory.
type vma struct {
	start, end, offset uint64
	exec, shared       bool
	open               *openFile
}

// mm is an address space.
type mm struct {
	vmas  []vma // in order of address
	users int   // processes
	next  uint64
	holes []uint64 // where something was unmapped
	exe   *file
	vdso  uint64
	fixed bool // at no random place (ADDR_NO_RANDOMIZE)
}

type thread struct {
	tid  int
	cpu  int
	proc *process
	call *call    // the system call that it is in
	last []uint64 // the stack of the call before
	// waits is the child that it waits for (vfork).
	waits *process
}

type process struct {
	pid     int
	mm      *mm
	threads []*thread
	comm    string
}

// call is a system call whose stack has not been unwound.
type call struct {
	index  int
	cookie uint64
	stack  []uint64
	raw    []Frame // what the first frames were in when the call began
}

// world is the machine.
type world struct {
	rng   *rand.Rand
	now   int64 // ns
	files []*file
	slots []uint64 // hashes, by slot
	free  []int    // slots, the last freed first
	inos  []uint64 // inode numbers that are free again
	ino   uint64
	procs []*process
	pid   int
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 77)), now: 5e9, ino: 1000, pid: 100}
	for i := range 10 {
		w.addFile(fmt.Sprintf("/usr/lib/libplug%d.so", i))
	}
	for i := range 6 {
		w.addFile(fmt.Sprintf("/usr/bin/prog%d", i))
	}
	w.addFile("/usr/lib/libc.so.6")
	w.addFile("/usr/lib/ld.so")
	return w
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) newIno() uint64 {
	if n := len(w.inos) - 1; n >= 0 {
		ino := w.inos[n]
		w.inos = w.inos[:n]
		return ino
	}
	w.ino++
	return w.ino
}

func (w *world) newFile(path string) *file {
	f := &file{path: path, ino: w.newIno(), links: 1}
	for i := range f.id {
		f.id[i] = byte(1 + w.rng.IntN(255))
	}
	return f
}

func (w *world) addFile(path string) { w.files = append(w.files, w.newFile(path)) }

// replace puts another file in the place of one, as package managers do.
func (w *world) replace() {
	i := w.rng.IntN(len(w.files))
	old := w.files[i]
	w.files[i] = w.newFile(old.path)
	old.deleted, old.links = true, 0
	w.dropFile(old)
}

// dropFile gives back an inode that nothing refers to.
func (w *world) dropFile(f *file) {
	if f.links == 0 && f.opens == 0 {
		w.inos = append(w.inos, f.ino)
		f.opens = -1
	}
}

// open makes a struct file where the last one was freed.
func (w *world) open(f *file) *openFile {
	o := &openFile{file: f}
	if n := len(w.free) - 1; n >= 0 {
		o.slot, w.free = w.free[n], w.free[:n]
	} else {
		o.slot = len(w.slots)
		w.slots = append(w.slots, uint64(1+w.rng.Uint32N(1<<32-2)))
	}
	f.opens++
	return o
}

func (w *world) hold(o *openFile) {
	if o != nil {
		o.refs++
	}
}

func (w *world) put(o *openFile) {
	if o == nil {
		return
	}
	if o.refs--; o.refs == 0 {
		w.free = append(w.free, o.slot)
		o.file.opens--
		w.dropFile(o.file)
	}
}

// at returns the mapping of an address, nil if there is none.
func (m *mm) at(addr uint64) *vma {
	i, _ := slices.BinarySearchFunc(m.vmas, addr, func(v vma, a uint64) int {
		if v.end > a {
			return 1
		}
		return -1
	})
	if i == len(m.vmas) || addr < m.vmas[i].start {
		return nil
	}
	return &m.vmas[i]
}

// unmap takes a range out of a space.
func (w *world) unmap(m *mm, start, end uint64) {
	var out []vma
	for _, v := range m.vmas {
		if v.end <= start || v.start >= end {
			out = append(out, v)
			continue
		}
		if v.start < start {
			left := v
			left.end = start
			w.hold(left.open)
			out = append(out, left)
		}
		if v.end > end {
			right := v
			right.start, right.offset = end, v.offset+end-v.start
			w.hold(right.open)
			out = append(out, right)
		}
		w.put(v.open)
	}
	m.vmas = out
}

// insert maps something, in the place of what was there.
func (w *world) insert(m *mm, v vma) {
	w.hold(v.open)
	w.unmap(m, v.start, v.end)
	i, _ := slices.BinarySearchFunc(m.vmas, v.start, func(a vma, s uint64) int {
		if a.start > s {
			return 1
		}
		return -1
	})
	m.vmas = slices.Insert(m.vmas, i, v)
}

// place chooses where the next mapping of a size goes: often where something
// was unmapped.
func (w *world) place(m *mm, size uint64) uint64 {
	if n := len(m.holes); n > 0 && w.chance(70) {
		at := m.holes[n-1]
		m.holes = m.holes[:n-1]
		if m.clear(at, at+size) {
			return at
		}
	}
	at := m.next
	for !m.clear(at, at+size) {
		at += 16 * page
	}
	m.next = at + size + uint64(w.rng.IntN(3))*page
	return at
}

func (m *mm) clear(start, end uint64) bool {
	for i := range m.vmas {
		if m.vmas[i].start < end && start < m.vmas[i].end {
			return false
		}
	}
	return true
}

// drop gives back a space that no process has any more.
func (w *world) drop(m *mm) {
	if m.users--; m.users == 0 {
		w.unmap(m, 0, 1<<63)
	}
}

// copy returns what fork makes of a space.
func (w *world) copy(m *mm) *mm {
	n := &mm{vmas: slices.Clone(m.vmas), users: 1, next: m.next, holes: slices.Clone(m.holes), exe: m.exe, vdso: m.vdso, fixed: m.fixed}
	for i := range n.vmas {
		w.hold(n.vmas[i].open)
	}
	return n
}
