package sums

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// copierOf has the sizes of copies that were set, and a number of changes; none if it is below 0.
type copierOf struct {
	sizes   []uint32
	changes int64
	missed  uint64

	unsettled bool
	refuses   error // of Copy
	known     map[bpffutex.Place]bool
}

func (c *copierOf) Copy(_ int32, bytes uint32) error {
	c.sizes = append(c.sizes, bytes)
	return c.refuses
}

func (c *copierOf) Missed() (uint64, error) { return c.missed, nil }

func (c *copierOf) Changes(uint64) (uint64, error) {
	switch {
	case c.changes < 0:
		return 0, errors.New("not known")
	case c.unsettled:
		return bpffutex.Unsettled, nil
	}
	return uint64(c.changes), nil
}

func (c *copierOf) Know(at bpffutex.Place, _ uint64, _ *bpffutex.Known) (bool, error) {
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
	w, err := newWalks(f, nil, true, c)
	if err != nil {
		t.Fatal(err)
	}
	f.walks = w
	t.Cleanup(w.close)
	return w, c
}

// ownWalks returns walks, and what is known of this very process.
func ownWalks(t *testing.T) (*walks, *copierOf, bpffutex.Futex, *program) {
	t.Helper()
	w, c := walksOf(t)
	of := bpffutex.Futex{TGID: int32(os.Getpid()), Memory: 1}
	p := w.files.program(&of)
	if p.pages == 0 || len(p.code) == 0 {
		t.Skip("the mappings of this process cannot be read")
	}
	return w, c, of, p
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
	c := new(copierOf)
	a := newAlike(c, &missed{kernel: c})
	p := &program{memory: 1, born: 2, version: 3}
	stack := new(resolve.Stack)
	wait := func() *bpffutex.Wait {
		return &bpffutex.Wait{Copy: copyAt(0x1000, 0x7000, 5, 6, 7), Stack: []bpffutex.Frame{{Number: 9}}}
	}
	first := wait()
	a.stacks[a.key(placeOf(p, first.Copy))] = &alikeStack{of: p, version: 3, pc: 0x1000, sp: 0x7000, regs: []bpffutex.Register{{Number: 3, Value: 7}}, words: []bpffutex.Word{{At: 0, Value: 5}, {At: 16, Value: 7}}, first: bpffutex.Frame{Number: 9}, stack: stack}
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

// TestAlikeRecognized: a number counts only for the program and mappings that it was of, whatever has
// been read since, and for the kernel's own frames.
func TestAlikeRecognized(t *testing.T) {
	c := new(copierOf)
	m := &missed{kernel: c}
	a := newAlike(c, m)
	p := &program{memory: 1, born: 2, version: 3}
	now := space.Monotonic()
	add := func() *alikeStack {
		s := &alikeStack{of: p, version: p.version, at: mapped{7, 8, now - 2, now - 1}, pc: 0x1000, sp: 0x7000, first: bpffutex.Frame{Number: 9}, stack: new(resolve.Stack), id: 5}
		a.stacks[a.key(s.place())], a.known[5] = s, s
		if _, err := c.Know(s.place(), 5, new(bpffutex.Known)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := add()
	wait := func() *bpffutex.Wait {
		return &bpffutex.Wait{Known: 5, Code: 7, Changes: 8, To: now, Stack: []bpffutex.Frame{{Number: 9}}}
	}
	if a.recognized(p, wait()) != s.stack {
		t.Error("it is not known")
	}
	if p.version++; a.recognized(p, wait()) != s.stack {
		t.Error("it is not known once its program has been read again")
	}
	if w := wait(); w != nil {
		if w.Known = 6; a.recognized(p, w) != nil {
			t.Error("a number that is not known")
		}
	}
	for name, change := range map[string]func(w *bpffutex.Wait){
		"another program": func(*bpffutex.Wait) { p = &program{memory: 1, born: 2, version: 3} }, "other frames": func(w *bpffutex.Wait) { w.Stack[0].Number = 8 },
		"fewer pages of code": func(w *bpffutex.Wait) { w.Code-- }, "another change": func(w *bpffutex.Wait) { w.Changes++ },
		"a change under way": func(w *bpffutex.Wait) { w.Changes = bpffutex.Unsettled }, "a change that was missed": func(w *bpffutex.Wait) { c.missed++; w.To = space.Monotonic() },
	} {
		add()
		w := wait()
		if change(w); a.recognized(p, w) != nil || len(a.known) > 0 || len(c.known) > 0 {
			t.Errorf("%s: it is known still: %v", name, c.known)
		}
		now = space.Monotonic()
	}
	// The stack of an older number is refused: the newer one at its place stays known.
	newer := *add()
	newer.id = 6
	a.stacks[a.key(newer.place())], a.known[6] = &newer, &newer
	old := wait()
	old.Changes++
	if a.recognized(p, old) != nil || len(c.known) == 0 {
		t.Error("the newer one is not known any more")
	}
	add()
	if a.clear(); len(a.known)+len(a.stacks)+len(c.known) > 0 {
		t.Errorf("%v", c.known)
	}
}

// TestWalksKnown: what was read of a program counts for a wait only if no code was mapped between.
func TestWalksKnown(t *testing.T) {
	w, c, of, p := ownWalks(t)
	wait := &bpffutex.Wait{Futex: of, Code: p.pages}
	if !w.known(p, wait) {
		t.Errorf("%d pages: %+v", p.pages, w.count)
	}
	wait.Code++
	if w.known(p, wait) {
		t.Errorf("another page: %+v", w.count)
	}
	wait.Code, wait.Changes = p.pages, 2
	if p.walked.again = time.Now().Add(time.Hour); w.known(p, wait) {
		t.Errorf("a change: %+v", w.count)
	}
	c.changes = 2
	if p.walked.again = (time.Time{}); !w.known(p, wait) {
		t.Errorf("it is read again: %+v", w.count)
	}
	c.changes = -1
	w.files.read(of.TGID, p)
	if w.known(p, wait) || p.unread != hasChanged {
		t.Errorf("changes that are not known: %+v", w.count)
	}
}

// TestWalksUnsettled: while a call that can map code is under way, neither what is read then counts,
// nor a wait that ends then.
func TestWalksUnsettled(t *testing.T) {
	w, c, of, p := ownWalks(t)
	wait := &bpffutex.Wait{Futex: of, Code: p.pages, Changes: bpffutex.Unsettled}
	if w.known(p, wait) {
		t.Error("a wait that ended then")
	}
	c.unsettled = true
	w.files.read(of.TGID, p)
	if w.is(p, wait) || p.pages != 0 || p.unread != hasChanged {
		t.Errorf("read then: %d pages, %d", p.pages, p.unread)
	}
}

// TestWalksMissed: a wait and what was read count only if no program was missed between the two.
func TestWalksMissed(t *testing.T) {
	w, c, of, p := ownWalks(t)
	wait := func() *bpffutex.Wait { return &bpffutex.Wait{Futex: of, Code: p.pages, To: space.Monotonic()} }
	before := wait()
	if !w.is(p, before) {
		t.Fatal("nothing was missed")
	}
	c.missed++
	if w.is(p, wait()) {
		t.Error("what was read before counts for a wait after")
	}
	w.files.read(of.TGID, p)
	if w.is(p, before) {
		t.Error("what was read after counts for a wait before")
	}
	if !w.is(p, wait()) {
		t.Error("what was read after does not count for a wait after")
	}
}

// TestWalksEnded: why a wait has the kernel's stack is what came of reading its process last.
func TestWalksEnded(t *testing.T) {
	w, _ := walksOf(t)
	wait := &bpffutex.Wait{Futex: bpffutex.Futex{TGID: noProcess, Memory: 1}, Code: 7, Changes: 2, Copy: copyAt(1, 2), Stack: []bpffutex.Frame{{Number: 1, IsAddress: true}}}
	if w.files.stack(wait); w.count != (walkCounts{Ended: 1}) {
		t.Errorf("no process: %+v", w.count)
	}
	p := w.files.program(&wait.Futex)
	p.pages, p.unread, p.walked.again = 7, wasRead, time.Now().Add(time.Hour) // it was read before
	if w.files.stack(wait); w.count != (walkCounts{Ended: 1, Changed: 1}) {
		t.Errorf("it has mapped code: %+v", w.count)
	}
	if p.walked.again = (time.Time{}); w.files.stack(wait) == nil || w.count != (walkCounts{Ended: 2, Changed: 1}) {
		t.Errorf("it has ended since: %+v", w.count)
	}
	p.unread, p.walked.again = notReadable, time.Now().Add(time.Hour)
	if w.files.stack(wait); w.count != (walkCounts{Ended: 2, Changed: 1, Unreadable: 1}) {
		t.Errorf("it may not be read: %+v", w.count)
	}
}

// TestWalksAddress: an address that the kernel found has a file only if that was mapped there when
// the wait ended, and cannot be written.
func TestWalksAddress(t *testing.T) {
	w, c, of, p := ownWalks(t)
	at := p.code[0].Start + 1
	attributed := func(wait *bpffutex.Wait) resolve.Attribution {
		wait.Futex, wait.Stack = of, []bpffutex.Frame{{Number: at, IsAddress: true}}
		return w.files.stack(wait).Attributions[0]
	}
	if o := attributed(&bpffutex.Wait{Code: p.pages}); o.File == nil || o.File.Path != p.code[0].Name || o.Offset != p.code[0].FileOffset(at) || o.Trust != filemap.Late {
		t.Errorf("as it was: %+v", o)
	}
	c.changes = 4
	for name, wait := range map[string]*bpffutex.Wait{
		"code was mapped": {Code: p.pages, Changes: 3}, "code was unmapped": {Code: p.pages + 1, Changes: 4},
		"with a copy": {Code: p.pages, Changes: 3, Copy: copyAt(at, 2)}, "under way": {Code: p.pages, Changes: bpffutex.Unsettled},
	} {
		if o := attributed(wait); o.File != nil || o.Reason != filemap.NoAddressSpace {
			t.Errorf("%s: %+v", name, o)
		}
	}
	p.walked.again = time.Time{}
	if o := attributed(&bpffutex.Wait{Code: p.pages, Changes: 4}); o.File == nil {
		t.Errorf("it is read again: %+v", o)
	}
	p.code[0].Perms |= procmap.Write
	if o := attributed(&bpffutex.Wait{Code: p.pages, Changes: 4}); o.File != nil || o.Reason != filemap.NoAddressSpace {
		t.Errorf("code that can be written: %+v", o)
	}
}

// TestWalksAgain: a program is read again soon as long as that helps, and else after twice as long
// each time.
func TestWalksAgain(t *testing.T) {
	w, c, of, p := ownWalks(t)
	for n := range int64(4) {
		c.changes = n + 1
		start := time.Now()
		p.walked.again = start
		if !w.known(p, &bpffutex.Wait{Futex: of, Code: p.pages, Changes: uint64(c.changes)}) || p.walked.pause != 0 || p.walked.again.Before(start.Add(soonAgain)) {
			t.Errorf("%d: paused %v", n, p.walked.pause)
		}
	}
	p.walked.again = time.Now()
	if before := p.version; w.known(p, &bpffutex.Wait{Futex: of, Code: p.pages, Changes: bpffutex.Unsettled}) || p.version != before || p.walked.pause != 0 {
		t.Errorf("a wait that ended in a change: version %d, was %d, paused %v", p.version, before, p.walked.pause)
	}
	for _, want := range []time.Duration{soonAgain, 2 * soonAgain, 4 * soonAgain} {
		p.walked.again = time.Now()
		if w.known(p, &bpffutex.Wait{Futex: of, Code: p.pages, Changes: 1}) || p.walked.pause != want {
			t.Errorf("paused %v, want %v", p.walked.pause, want)
		}
	}
}

// TestWalksStopped: what is read once no changes are counted any more does not count; what was read
// before does.
func TestWalksStopped(t *testing.T) {
	w, c, of, p := ownWalks(t)
	wait := &bpffutex.Wait{Futex: of, Code: p.pages}
	if w.stop(); !w.known(p, wait) {
		t.Error("what was read before")
	}
	c.changes = 1
	if w.known(p, &bpffutex.Wait{Futex: of, Code: p.pages, Changes: 1}) {
		t.Error("it is read again")
	}
	c.changes = 0
	if w.files.read(of.TGID, p); w.known(p, wait) {
		t.Error("what was read after")
	}
	(*walks)(nil).stop()
}

// TestWalksRest: files that no stack leads through are closed though no wait comes, and the programs
// that had them mapped do not use them any more.
func TestWalksRest(t *testing.T) {
	w, _ := walksOf(t)
	f := w.unwinder.File(unwind.Source{Key: "idle"})
	p := w.files.program(&bpffutex.Futex{TGID: noProcess, Memory: 1})
	p.walked.tables = map[uint64]*unwind.File{1: f}
	if w.rest(); len(p.walked.tables) != 1 {
		t.Error("too soon")
	}
	w.rested = time.Now().Add(-restEvery)
	if w.rest(); len(p.walked.tables) != 0 || w.unwinder.Known("idle") {
		t.Errorf("%v", p.walked.tables)
	}
	(*walks)(nil).rest()
}

// TestWalksBegins: the first frame is where the kernel found it. An address proves little where the
// file has a build ID, and nothing if the kernel has looked in other files.
func TestWalksBegins(t *testing.T) {
	id := filemap.BuildID(idOf(t, 7).Padded())
	p := &program{code: []procmap.Mapping{{Start: 0x1000, End: 0x3000, Offset: 0x500, BuildID: idOf(t, 7)}, {Start: 0x5000, End: 0x6000}}}
	address := func(n uint64) bpffutex.Frame { return bpffutex.Frame{Number: n, IsAddress: true} }
	for _, test := range []struct {
		name  string
		stack []bpffutex.Frame
		pc    uint64
		want  bool
	}{
		{"no frame", nil, 0x1010, false}, {"build ID", []bpffutex.Frame{{BuildID: id, Number: 0x510}}, 0x1010, true},
		{"offset", []bpffutex.Frame{{BuildID: id, Number: 0x511}}, 0x1010, false}, {"no build ID in the file", []bpffutex.Frame{address(0x5010), {BuildID: id}}, 0x5010, true},
		{"another address", []bpffutex.Frame{address(0x5011)}, 0x5010, false}, {"no build ID found", []bpffutex.Frame{address(0x1010), address(0x5010)}, 0x1010, true},
		{"other build IDs found", []bpffutex.Frame{address(0x1010), {BuildID: id}}, 0x1010, false},
	} {
		if got := p.begins(&bpffutex.Wait{Stack: test.stack}, test.pc); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
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
	c.refuses = errors.New("no room")
	other := new(program)
	if w.short(other, wait, 8); other.walked.copied != 0 || w.count.Unset != 1 {
		t.Errorf("%d, %+v", other.walked.copied, w.count)
	}
}

// TestWalksHole: where a copy ends as the page after it is not in memory, more of the stack is not
// copied, but that page is read, so that it is in memory for the next copy.
func TestWalksHole(t *testing.T) {
	w, c := walksOf(t)
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	mem[0] = 1
	in := func(n int) bool {
		var b [1]byte
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[n*page])), uintptr(page), uintptr(unsafe.Pointer(&b[0]))); errno != 0 {
			t.Fatal(errno)
		}
		return b[0]&1 == 1
	}
	if in(1) {
		t.Skip("a page is in memory that was not touched")
	}
	wait := &bpffutex.Wait{Futex: bpffutex.Futex{TGID: int32(os.Getpid())}, Copy: copyAt(1, uint64(uintptr(unsafe.Pointer(&mem[0]))), make([]uint64, page/8)...)}
	wait.Copy.Asked = firstCopy + uint32(page)
	w.short(new(program), wait, 8)
	if !in(1) || len(c.sizes) > 0 || w.count.Short != 1 {
		t.Errorf("the page is in memory: %v; sizes %v, %+v", in(1), c.sizes, w.count)
	}
}

// TestWalksText: the note has all that was lost, and nothing that was not.
func TestWalksText(t *testing.T) {
	if text := new(walkCounts).text(new(bpffutex.Loss)); text != "" {
		t.Errorf("%q", text)
	}
	c := walkCounts{Whole: 1, Ended: 2, Changed: 3, Unreadable: 4, Unlike: 5, Failed: 6, Short: 7, Unset: 8, Unrecognized: 11}
	const want = "1 long waits unwound by tables; 7 copies of stacks too short; 2 with the kernel's stack, as the process had ended; " +
		"3 with the kernel's stack, as code was mapped meanwhile; 4 with the kernel's stack, as what the process has mapped cannot be read; " +
		"5 with the kernel's stack, whose first frame is in another file; 6 with the kernel's stack, as nothing was unwound; " +
		"11 with the first frame only, as the kernel recognized a stack that was no longer sure; " +
		"9 with the kernel's stack, as there was no room for a copy; 10 with the kernel's stack, as theirs was not in memory; 8 times more could not be copied"
	if text := c.text(&bpffutex.Loss{Copies: 9, Pages: 10}); text != want {
		t.Errorf("%s", text)
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
