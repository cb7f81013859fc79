package sums

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// copierOf has the sizes of copies that were set, and a number of changes; none if it is below 0.
type copierOf struct {
	sizes   []uint32
	changes int64
	known   map[bpffutex.Place]bool
}

func (c *copierOf) Copy(_ int32, bytes uint32) error {
	c.sizes = append(c.sizes, bytes)
	return nil
}

func (c *copierOf) Changes(int32) (uint64, error) {
	if c.changes < 0 {
		return 0, errors.New("not known")
	}
	return uint64(c.changes), nil
}

func (c *copierOf) Know(at bpffutex.Place, _ uint64, _ []bpffutex.Word) (bool, error) {
	if c.known == nil {
		c.known = make(map[bpffutex.Place]bool)
	}
	c.known[at] = true
	return true, nil
}

func (c *copierOf) Unknow(at bpffutex.Place) error {
	delete(c.known, at)
	return nil
}

// walksOf returns walks of an empty files.
func walksOf(t *testing.T) (*walks, *copierOf) {
	t.Helper()
	f, c := emptyFiles(t), new(copierOf)
	w, err := newWalks(f, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	f.walks = w
	t.Cleanup(w.close)
	return w, c
}

// copyAt returns a copy of a thread at a program counter, whose stack has words.
func copyAt(pc, sp uint64, words ...uint64) *bpffutex.Copy {
	var stack []byte
	for _, v := range words {
		stack = binary.LittleEndian.AppendUint64(stack, v)
	}
	at := pointers[runtime.GOARCH]
	return bpffutex.NewCopy(map[uint8]uint64{at[0]: sp, at[1]: pc, 3: 7}, stack, uint32(len(stack)))
}

// TestAlike: a stack is that of another wait only if its program, its mappings, the registers and the
// words that led to it are the same, and what the kernel found.
func TestAlike(t *testing.T) {
	a := newAlike(new(copierOf))
	p := &program{memory: 1, born: 2, version: 3}
	stack := new(resolve.Stack)
	wait := func() *bpffutex.Wait {
		return &bpffutex.Wait{Copy: copyAt(0x1000, 0x7000, 5, 6, 7), Stack: []bpffutex.Frame{{Number: 9}}}
	}
	first := wait()
	a.stacks[a.key(p, first.Copy)] = &alikeStack{of: p, version: 3, pc: 0x1000, sp: 0x7000, regs: []register{{3, 7}}, words: []bpffutex.Word{{At: 0, Value: 5}, {At: 16, Value: 7}}, first: bpffutex.Frame{Number: 9}, stack: stack}
	get := func(p *program, w *bpffutex.Wait) *resolve.Stack {
		var regs unwind.Registers
		w.Copy.Registers(regs.Set)
		return a.get(p, w, &regs)
	}
	other := wait()
	other.Copy = copyAt(0x1000, 0x7000, 5, 99, 7, 8) // that word has no part in it
	if get(p, first) != stack || get(p, other) != stack {
		t.Error("it is not found")
	}
	for name, change := range map[string]func(*bpffutex.Wait){
		"word":   func(w *bpffutex.Wait) { w.Copy = copyAt(0x1000, 0x7000, 5, 6, 8) },
		"short":  func(w *bpffutex.Wait) { w.Copy = copyAt(0x1000, 0x7000, 5, 6) },
		"place":  func(w *bpffutex.Wait) { w.Copy = copyAt(0x1001, 0x7000, 5, 6, 7) },
		"stack":  func(w *bpffutex.Wait) { w.Copy = copyAt(0x1000, 0x7008, 5, 6, 7) },
		"kernel": func(w *bpffutex.Wait) { w.Stack = []bpffutex.Frame{{Number: 8}} },
		"register": func(w *bpffutex.Wait) {
			w.Copy = bpffutex.NewCopy(map[uint8]uint64{pointers[runtime.GOARCH][0]: 0x7000, pointers[runtime.GOARCH][1]: 0x1000, 3: 8}, w.Copy.Stack, 24)
		},
	} {
		w := wait()
		change(w)
		if get(p, w) != nil {
			t.Errorf("%s: it is taken for the same", name)
		}
	}
	p.version++
	if get(p, first) != nil {
		t.Error("after its mappings have been read again")
	}
}

// TestAlikeRecognized: a number counts only for the program and mappings that it was of, and for the
// kernel's own frames.
func TestAlikeRecognized(t *testing.T) {
	c := new(copierOf)
	a := newAlike(c)
	p := &program{memory: 1, born: 2, version: 3}
	add := func() *alikeStack {
		s := &alikeStack{of: p, version: p.version, pc: 0x1000, sp: 0x7000, first: bpffutex.Frame{Number: 9}, stack: new(resolve.Stack), id: 5}
		a.stacks[1], a.known[5] = s, s
		if _, err := c.Know(s.place(), 5, nil); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := add()
	w := &bpffutex.Wait{Known: 5, Stack: []bpffutex.Frame{{Number: 9}}}
	if a.recognized(p, w) != s.stack {
		t.Error("it is not known")
	}
	if a.recognized(p, &bpffutex.Wait{Known: 6, Stack: []bpffutex.Frame{{Number: 9}}}) != nil {
		t.Error("a number that is not known")
	}
	for name, change := range map[string]func(){
		"another program": func() { p = &program{memory: 1, born: 2, version: 3} }, "other mappings": func() { p.version++ }, "other frames": func() { w.Stack = []bpffutex.Frame{{Number: 8}} },
	} {
		add()
		if change(); a.recognized(p, w) != nil || len(a.known) > 0 || len(c.known) > 0 {
			t.Errorf("%s: it is known still: %v", name, c.known)
		}
		w.Stack = []bpffutex.Frame{{Number: 9}}
	}
	add()
	if a.clear(); len(a.known)+len(a.stacks)+len(c.known) > 0 {
		t.Errorf("%v", c.known)
	}
}

// TestWalksKnown: what was read of a program counts for a wait only if no code was mapped between.
func TestWalksKnown(t *testing.T) {
	w, c := walksOf(t)
	of := bpffutex.Futex{TGID: int32(os.Getpid()), Memory: 1}
	p := w.files.program(&of)
	if p.pages == 0 {
		t.Skip("the mappings of this process cannot be read")
	}
	wait := &bpffutex.Wait{Futex: of, Code: p.pages}
	if !w.known(p, wait) {
		t.Errorf("%d pages: %+v", p.pages, w.count)
	}
	wait.Code++
	if w.known(p, wait) || w.count.Changed != 1 {
		t.Errorf("another page: %+v", w.count)
	}
	wait.Code, wait.Changes = p.pages, 2
	if p.walked.again = time.Now().Add(time.Hour); w.known(p, wait) || w.count.Changed != 2 {
		t.Errorf("a change: %+v", w.count)
	}
	c.changes = 2
	if p.walked.again = (time.Time{}); !w.known(p, wait) {
		t.Errorf("it is read again: %+v", w.count)
	}
	c.changes = -1
	w.files.read(of.TGID, p)
	if w.known(p, wait) || w.count.Ended != 1 {
		t.Errorf("changes that are not known: %+v", w.count)
	}
}

// TestWalksUnlike: where the kernel has found another file or offset for the first frame, its stack
// stays.
func TestWalksUnlike(t *testing.T) {
	p := &program{code: []procmap.Mapping{{Start: 0x1000, End: 0x3000, Offset: 0x500, BuildID: idOf(t, 7)}}}
	id := filemap.BuildID(idOf(t, 7).Padded())
	for _, test := range []struct {
		frame bpffutex.Frame
		want  bool
	}{
		{bpffutex.Frame{BuildID: id, Number: 0x510}, true}, {bpffutex.Frame{BuildID: id, Number: 0x511}, false},
		{bpffutex.Frame{BuildID: filemap.BuildID{1}, Number: 0x510}, false}, {bpffutex.Frame{Number: 0x1010, IsAddress: true}, true},
		{bpffutex.Frame{Number: 0x510, IsAddress: true}, false},
	} {
		if got := p.same(&test.frame, 0x1010); got != test.want {
			t.Errorf("%+v: %v", test.frame, got)
		}
	}
}

// TestWalksShort: more is copied of a process whose copies are too short, and no more than is copied
// at all.
func TestWalksShort(t *testing.T) {
	w, c := walksOf(t)
	p := new(program)
	wait := &bpffutex.Wait{Copy: copyAt(1, 2, make([]uint64, firstCopy/8)...)}
	w.short(p, wait, 8)
	w.short(p, wait, 8) // its copy was made before
	wait.Copy = copyAt(1, 2, make([]uint64, 2*firstCopy/8)...)
	w.short(p, wait, 1<<40)
	if len(c.sizes) != 2 || c.sizes[0] != 2*firstCopy || c.sizes[1] != bpffutex.MaxCopy || w.count.Short != 3 {
		t.Errorf("%v, %+v", c.sizes, w.count)
	}
}

// TestWalksBeyond: the kernel's frames go on where the tables end, if both agree so far.
func TestWalksBeyond(t *testing.T) {
	w, _ := walksOf(t)
	at := func(list ...uint64) (frames []bpffutex.Frame) {
		for _, n := range list {
			frames = append(frames, bpffutex.Frame{Number: n, IsAddress: true})
		}
		return frames
	}
	w.frames = []unwind.Frame{{PC: 1}, {PC: 2}}
	for _, test := range []struct {
		stop   tracefs.Stop
		kernel []bpffutex.Frame
		addr   uint64
		want   int
	}{
		{tracefs.AtFile, at(1, 2, 3, 4), 0, 2}, {tracefs.AtCopy, at(1, 9, 3), 0, 3}, {tracefs.AtCopy, at(1), 0, 1}, {tracefs.AtRoot, at(1, 2, 3), 0, 3},
		{tracefs.AtNoMap, at(1, 2, 7, 8), 7, 2}, {tracefs.AtNoMap, at(2, 7, 8), 7, 1}, {tracefs.AtNoMap, at(1, 5, 7), 7, 3},
	} {
		if got := w.beyond(new(program), &bpffutex.Wait{Stack: test.kernel}, test.stop, test.addr); got != test.want {
			t.Errorf("%v, %+v: %d, want %d", test.stop, test.kernel, got, test.want)
		}
	}
}
