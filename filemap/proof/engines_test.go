package proof_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/observed"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/timeline"
	"ustack/tracefs"
)

// A machine is a random history: processes map and unmap libraries, which all have
// one layout, and fork. It is written down as an exact history and as a dump, and
// the frames of its stacks carry the truth.
type machine struct {
	rng    *rand.Rand
	inodes bool // the dialect
	now    tracefs.Time
	maps   map[int32][]library // by process
	heap   []uint64            // struct files that are free, by hash
	opened map[uint64]int      // how many mappings have one that is not
	cache  map[tracefs.Identifier]*filemap.File
	next   uint64 // address

	spaces *space.Spaces
	dump   map[int32]*strings.Builder
	stacks []*truthStack
}

// library is one that a process has mapped.
type library struct {
	file int
	addr uint64
	hash uint64
}

// truthStack is a stack with the truth of its frames.
type truthStack struct {
	tid    int32
	at     tracefs.Time
	frames []tracefs.Frame
	said   []resolve.Attribution
	truth  []where
}

// where is which library a frame is in, and whether it is in code of it.
type where struct {
	library
	code bool
}

const (
	codeAt, dataAt, endAt = 0x1000, 0x5000, 0x7000

	// unknownProcess is one that neither the dump nor the history has.
	unknownProcess = 3
	step           = tracefs.Time(100e6)
)

func pathOf(file int) string { return fmt.Sprintf("/lib/%d", file) }

func idOf(file int) (elfid.ID, filemap.BuildID) {
	id, _ := elfid.Parse(fmt.Appendf(nil, "%040x", file+1))
	return id, filemap.BuildID(id.Padded())
}

func newMachine(seed uint64) *machine {
	m := &machine{rng: rand.New(rand.NewPCG(seed, 14)), inodes: seed%3 == 0, maps: map[int32][]library{}, opened: map[uint64]int{},
		cache: map[tracefs.Identifier]*filemap.File{}, next: 0x7f0000000000, spaces: space.New(), dump: map[int32]*strings.Builder{}}
	for h := range uint64(12) {
		m.heap = append(m.heap, 0x1000+h)
	}
	m.spaces.Fork(99, 1, 1)
	m.spaces.Fork(99, 4, 1)
	for i := range 30 {
		m.now = tracefs.Time(i+1) * step
		m.change(i)
		m.read(m.now + step/10)
		for range 6 {
			m.stack(m.now + step/2 + tracefs.Time(m.rng.IntN(int(step/10))))
		}
		m.read(m.now + step - step/10)
	}
	return m
}

// change has a process map or unmap a library, or fork.
func (m *machine) change(i int) {
	switch pid := int32(1 + 3*m.rng.IntN(2)); {
	case i == 8:
		m.fork(1, 2)
	case i == 12:
		m.fork(4, unknownProcess)
	case m.rng.IntN(3) > 0 && len(m.heap) > 0:
		m.open(pid)
	case len(m.maps[pid]) > 0:
		m.close(pid, m.rng.IntN(len(m.maps[pid])))
	}
	if m.rng.IntN(5) == 0 {
		clear(m.cache)
	}
}

// open takes the struct file that was freed last, as the kernel does.
func (m *machine) open(pid int32) {
	l := library{m.rng.IntN(5), m.next, m.heap[len(m.heap)-1]}
	m.heap, m.next = m.heap[:len(m.heap)-1], m.next+0x10000
	m.opened[l.hash]++
	m.maps[pid] = append(m.maps[pid], l)
	id, _ := idOf(l.file)
	m.spaces.MapExact(int(pid), &procmap.Mapping{Start: l.addr + codeAt, End: l.addr + dataAt, Offset: codeAt, Name: pathOf(l.file), Inode: uint64(100 + l.file),
		BuildID: id, Perms: procmap.Read | procmap.Exec, Kind: procmap.Classify(pathOf(l.file), procmap.Dev{Major: 8, Minor: 1}, 100), Dev: procmap.Dev{Major: 8, Minor: 1}}, m.now)
}

func (m *machine) close(pid int32, i int) {
	l := m.maps[pid][i]
	m.maps[pid] = append(m.maps[pid][:i:i], m.maps[pid][i+1:]...)
	if m.opened[l.hash]--; m.opened[l.hash] == 0 {
		m.heap = append(m.heap, l.hash)
	}
	m.spaces.Unmap(int(pid), l.addr, l.addr+endAt, m.now)
}

func (m *machine) fork(parent, child int32) {
	for _, l := range m.maps[parent] {
		m.opened[l.hash]++
		m.maps[child] = append(m.maps[child], l)
	}
	if child != unknownProcess {
		m.spaces.Fork(int(parent), int(child), m.now)
	}
}

// read adds what the processes have to the dump.
func (m *machine) read(at tracefs.Time) {
	for pid, list := range m.maps {
		if pid == unknownProcess {
			continue
		}
		if m.dump[pid] == nil {
			m.dump[pid] = new(strings.Builder)
		}
		w := m.dump[pid]
		fmt.Fprintf(w, "### t=%d.%09d pid=%d comm=p exe=/p\n", at/1e9, at%1e9, pid)
		seen := map[int]bool{}
		for _, l := range list {
			fmt.Fprintf(w, "%x-%x r-xp %08x 08:01 %d %s\n", l.addr+codeAt, l.addr+dataAt, codeAt, 100+l.file, pathOf(l.file))
			fmt.Fprintf(w, "%x-%x rw-p %08x 08:01 %d %s\n", l.addr+dataAt, l.addr+endAt, dataAt, 100+l.file, pathOf(l.file))
			if _, id := idOf(l.file); !seen[l.file] {
				fmt.Fprintf(w, "# 08:01 %d build_id=%x\n", 100+l.file, id[:20])
			}
			seen[l.file] = true
		}
	}
}

// stack makes a stack of a process. What the kernel has not in its cache it announces
// because of the stack.
func (m *machine) stack(at tracefs.Time) {
	pid := int32(1 + m.rng.IntN(4))
	list := m.maps[pid]
	if len(list) == 0 {
		return
	}
	s := &truthStack{tid: pid, at: at}
	for range 1 + m.rng.IntN(4) {
		l := list[m.rng.IntN(len(list))]
		offset, code := uint64(codeAt+m.rng.IntN(dataAt-codeAt)), m.rng.IntN(6) > 0
		if !code {
			offset = uint64(dataAt + m.rng.IntN(endAt-dataAt))
		}
		id := tracefs.HashIdentifier(l.hash)
		if m.inodes {
			id = tracefs.InodeIdentifier(uint64(100+l.file), 8, 1)
		}
		said := resolve.Unnamed(filemap.Unannounced)
		if known := m.cache[id]; known != nil {
			said = resolve.Named(known, filemap.Claimed)
		} else if m.rng.IntN(8) > 0 { // or the mapping event was lost
			_, build := idOf(l.file)
			m.cache[id] = &filemap.File{Path: pathOf(l.file), HasID: !m.inodes, BuildID: build}
			if m.inodes {
				m.cache[id].BuildID = filemap.BuildID{}
			}
			said = resolve.Own(m.cache[id])
		}
		s.frames = append(s.frames, tracefs.Frame{Form: tracefs.FormIdentifier, ID: id, Addr: offset, HasAddr: true})
		s.said, s.truth = append(s.said, said), append(s.truth, where{l, code})
	}
	m.stacks = append(m.stacks, s)
}

// each has an engine judge all stacks.
func (m *machine) each(e resolve.Attributor) (all [][]resolve.Attribution) {
	for _, s := range m.stacks {
		sub := &resolve.Query{TID: s.tid, TGID: s.tid, Time: s.at, Timed: true, Frames: s.frames, Attributions: append([]resolve.Attribution(nil), s.said...)}
		e.Attribute(sub)
		all = append(all, sub.Attributions)
	}
	return all
}

// threads has each thread be a process.
type threads struct{}

func (threads) PID(tid int, _ tracefs.Time) (int, bool, bool) { return tid, false, true }

// exact is what the engine of exact histories says.
func (m *machine) exact() [][]resolve.Attribution {
	return m.each(timeline.New(timeline.Options{Spaces: m.spaces, Threads: threads{}, Stamp: timeline.TextStamp(),
		Unseen: func(_, _ tracefs.Time) bool { return false }}))
}

// dumped is what the engine of dumps says.
func (m *machine) dumped(t *testing.T) [][]resolve.Attribution {
	t.Helper()
	dir := t.TempDir()
	for pid, text := range m.dump {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(pid, ".maps")), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := loadDump(t, dir)
	for {
		m.each(e)
		if e.Solve() {
			return m.each(e)
		}
	}
}

// loadDump is the engine of the dump in a directory, before it has read the trace.
func loadDump(t *testing.T, dir string) *observed.Mappings {
	t.Helper()
	d, err := observed.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := observed.New(d, "")
	if err != nil {
		t.Fatal(err)
	}
	e.Clock("mono")
	return e
}

// TestEngines: of one history, known exactly and by a dump, no engine gives a frame a
// wrong file that is not claimed, or a frame that is no code any; and where both give
// it a file that is not claimed, it is the same one.
func TestEngines(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(48) {
		m := newMachine(seed)
		engines := map[string][][]resolve.Attribution{"exact": m.exact(), "dump": m.dumped(t)}
		for i, s := range m.stacks {
			for k := range s.frames {
				both := ""
				for name, all := range engines {
					o := &all[i][k]
					if !isTrue(o, s.truth[k]) {
						t.Fatalf("seed %d, process %d at %d: by %s, %+v of %s said %+v is %+v, but it is in %+v", seed, s.tid, s.at, name, s.frames[k], s.said[k].Trust, s.said[k].File, o, s.truth[k])
					}
					counts[fmt.Sprint(name, " ", o.Trust, o.Reason)]++
					if o.File != nil && o.Trust != filemap.Claimed {
						both += o.File.Path + " "
					}
				}
				if both != "" {
					counts[fmt.Sprint("named by ", strings.Count(both, " "))]++
				}
			}
		}
	}
	t.Log(counts)
	if counts["named by 2"] < 5_000 {
		t.Errorf("both engines named only %d frames", counts["named by 2"])
	}
}

// isTrue reports whether an attribution is right. What the kernel has announced because of
// the very stack can be no code, as long as nothing else is known of the process.
func isTrue(o *resolve.Attribution, w where) bool {
	if o.File == nil || o.Trust == filemap.Claimed {
		return true
	}
	_, id := idOf(w.file)
	return (w.code || o.Trust == filemap.Announced) && o.File.Path == pathOf(w.file) && (!o.File.HasID || o.File.BuildID == id)
}
