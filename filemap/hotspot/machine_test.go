package hotspot

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"

	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// machine opens the virtual machine of the image.
func machine(t testing.TB, m *image) (*Machine, *clock) {
	t.Helper()
	c := new(clock)
	x, err := Open(m, m.Symbols, NewNames(), new(Counts), c.now)
	if err != nil {
		t.Fatal(err)
	}
	return x, c
}

// TestImage: the frames of the recorded threads are those of the methods that the program had
// called. A method of the interpreter has no name in the stack in which it is seen first, and
// code none in a stack from before it was known.
func TestImage(t *testing.T) {
	m := openImage(t)
	x, c := machine(t, m)
	early := c.t
	inlined := 0
	for i := range m.Threads {
		th := &m.Threads[i]
		if list, _, last := walk(x, m, th, 1); last.Known || len(list) > 0 {
			t.Errorf("before the virtual machine was known: %v", list)
		}
		first, _, _ := walk(x, m, th, c.now())
		if unnamed := slices.Contains(first, ""); !unnamed && x.count.Unnamed.Load() == 0 {
			t.Errorf("all methods of the interpreter are known in their first stack: %v", first)
		}
		list, native, last := walk(x, m, th, c.now())
		if native == 0 || !last.OK {
			t.Errorf("thread %d does not reach native code: %+v", i, last.End)
		}
		if !slices.Equal(list, th.Methods) {
			t.Errorf("thread %d: %q, want %q", i, list, th.Methods)
		}
		for _, name := range list {
			if len(name) > 2 && name[len(name)-1] == '<' {
				inlined++
			}
		}
	}
	if len(m.Threads) < 5 || inlined < 5 {
		t.Errorf("%d threads, %d inlined methods", len(m.Threads), inlined)
	}
	if x.count.Fresh.Load() == 0 || early == 0 {
		t.Error("no frame was from before the code was known")
	}
}

// TestWithoutNames: where functions are not asked for, stacks go as far.
func TestWithoutNames(t *testing.T) {
	m := openImage(t)
	c := new(clock)
	x, err := Open(m, m.Symbols, nil, new(Counts), c.now)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Threads {
		if list, native, last := walk(x, m, &m.Threads[i], c.now()); native == 0 || len(list) == 0 {
			t.Errorf("thread %d ends after %d frames: %+v", i, len(list), last)
		}
	}
}

// compiledFrame returns a piece of compiled code that a thread of the image is in, with the
// thread.
func compiledFrame(t *testing.T, m *image) (*known, *imageThread) {
	t.Helper()
	x, c := machine(t, m)
	for i := range m.Threads {
		th := &m.Threads[i]
		v := x.At(c.now(), c.t)
		var regs unwind.Registers
		regs.Set(rsp, th.SP)
		regs.Set(rbp, th.FP)
		for pc := th.PC; ; {
			if k := x.find(pc); k != nil && k.kind == compiled && k.has(pc) {
				return k, th
			}
			called := v.Caller(pc, &regs, m)
			if !called.OK || pc == x.callStub {
				break
			}
			pc = called.To
		}
	}
	t.Fatal("no thread is in compiled code")
	return nil, nil
}

// TestChangedCode: code that is other code afterwards, or was, ends the stack before it, and
// so does code that has gone.
func TestChangedCode(t *testing.T) {
	m := openImage(t)
	k, th := compiledFrame(t, m)
	l := func() *layout { x, _ := machine(t, m); return x.l }()
	head := l.head(k.block)
	for name, change := range map[string]func(*image){
		"another compilation": func(m *image) { m.put(head+uint64(l.nm.compileID), byte(k.nm.compileID)+1) },
		"another method":      func(m *image) { m.put(head+uint64(l.nm.method), byte(k.nm.method)+8) },
		"not alive":           func(m *image) { m.put(head+uint64(l.nm.state), 2) },
		"free":                func(m *image) { m.put(k.block+uint64(l.blockUsed), 0) },
		"not readable":        func(m *image) { delete(m.Pages, k.block/pageSize) },
	} {
		t.Run(name, func(t *testing.T) {
			now := m.clone()
			x, c := machine(t, now)
			walk(x, now, th, c.now())
			whole, _, _ := walk(x, now, th, c.now())
			at := c.now()
			change(now)
			cut, _, last := walk(x, now, th, at)
			if last.Known || len(cut) >= len(whole) || !slices.Equal(cut, whole[:len(cut)]) {
				t.Errorf("%q, before the change %q", cut, whole)
			}
			if again, _, last := walk(x, now, th, at); last.Known || !slices.Equal(again, cut) {
				t.Errorf("the next time: %q, %q", again, cut)
			}
		})
	}
}

// TestNewCode: code that has come counts for stacks from when it is known on.
func TestNewCode(t *testing.T) {
	m := openImage(t)
	k, th := compiledFrame(t, m)
	before := m.clone()
	x, c := machine(t, before)
	walk(x, before, th, c.now())
	want, _, _ := walk(x, before, th, c.now())
	head := x.l.head(k.block)
	before.put(head+uint64(x.l.nm.compileID), byte(k.nm.compileID)+1)
	old := c.now()
	walk(x, before, th, old)
	if cut, _, _ := walk(x, before, th, old); len(cut) >= len(want) {
		t.Errorf("a stack of before: %q", cut)
	}
	if list, _, _ := walk(x, before, th, c.now()); !slices.Equal(list, want) {
		t.Errorf("a stack of after: %q, want %q", list, want)
	}
}

// TestChangedMethod: a method in a frame of the interpreter that is another one afterwards has
// no name, and the frames after it stay.
func TestChangedMethod(t *testing.T) {
	m := openImage(t)
	x, c := machine(t, m)
	th := &m.Threads[0]
	walk(x, m, th, c.now())
	want, _, _ := walk(x, m, th, c.now())
	at := c.now()
	var changed *knownMethod
	for _, k := range x.methods {
		if k.name == "Waits.walk" {
			changed = k
		}
	}
	if changed == nil {
		t.Fatalf("no frame of the interpreter in %q: %v", want, slices.Collect(maps.Keys(x.methods)))
	}
	m.put(changed.symbols[0]+uint64(x.l.symbolBody), 'W')
	list, native, _ := walk(x, m, th, at)
	for i, name := range want {
		if name == "Waits.walk" {
			want[i] = ""
		}
	}
	if native == 0 || !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
	if list, _, _ = walk(x, m, th, c.now()); !slices.Contains(list, "Waits.Walk") {
		t.Errorf("afterwards: %q", list)
	}
}

// TestOtherVersions: what is not 17 is said, and so is what misses a field.
func TestOtherVersions(t *testing.T) {
	m := openImage(t)
	x, c := machine(t, m)
	for _, version := range []byte{0, 8, 11, 16, 18, 21, 255} {
		other := m.clone()
		other.put(x.l.version, version)
		if _, err := Open(other, m.Symbols, NewNames(), new(Counts), c.now); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	for name := range m.Symbols {
		less := maps.Clone(m.Symbols)
		delete(less, name)
		_, err := Open(m, less, NewNames(), new(Counts), c.now)
		if needed := err != nil; !needed && (name == "gHotSpotVMStructs" || name == "gHotSpotVMTypes" || name == "gHotSpotVMIntConstants") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestScan: code that has come is found by the map of segments, and what has gone is forgotten.
func TestScan(t *testing.T) {
	m := openImage(t)
	k, _ := compiledFrame(t, m)
	x, c := machine(t, m)
	h := x.heapOf(k.block)
	segment := h.segmap + (k.block-h.low)>>h.log2
	now := m.clone()
	x.mem.mem = now
	now.put(segment, 0xff)
	later(c)
	if err := x.Look(); err != nil || x.blobs[k.block] != nil {
		t.Fatalf("code that has gone: %v, %v", x.blobs[k.block], err)
	}
	now.put(segment, 0)
	later(c)
	before := c.t
	if err := x.Look(); err != nil || x.blobs[k.block] == nil {
		t.Fatalf("code that has come: %v", err)
	}
	if got := x.blobs[k.block]; got.first <= before {
		t.Errorf("known at %d, looked for after %d", got.first, before)
	}
	if !slices.IsSorted(x.starts) || len(x.starts) != len(x.blobs) {
		t.Errorf("%d starts, %d pieces of code", len(x.starts), len(x.blobs))
	}
}

// later is after the rest between two scans.
func later(c *clock) { c.t += tracefs.Time(1e9) }

// TestNumbers reads compressed numbers (CompressedStream::read_int).
func TestNumbers(t *testing.T) {
	for _, test := range []struct {
		b    []byte
		want int
		rest int
		bad  bool
	}{
		{[]byte{0, 9}, 0, 1, false},
		{[]byte{191}, 191, 0, false},
		{[]byte{192, 0}, 192, 0, false},
		{[]byte{192, 1, 7}, 192 + 64, 1, false},
		{[]byte{255, 191}, 255 + 191<<6, 0, false},
		{[]byte{192, 192, 192, 192, 192}, 192 + 192<<6 + 192<<12 + 192<<18 + -1<<30, 0, false},
		{[]byte{192}, 0, 1, true},
		{nil, 0, 0, true},
	} {
		s := numbers{b: test.b}
		if got := s.next(); got != test.want || s.bad != test.bad || len(s.b) != test.rest && !test.bad {
			t.Errorf("%v: %d, %+v", test.b, got, s)
		}
	}
}

// TestBudget: what is read of a process is bounded.
func TestBudget(t *testing.T) {
	m := openImage(t)
	x, c := machine(t, m)
	stop := c.t
	x.now, x.mem.now = func() tracefs.Time { return stop }, func() tracefs.Time { return stop }
	n := 0
	for ; n < 2*maxUnits; n++ {
		if _, err := word(x.mem, x.l.codeHeaps); err != nil {
			if !IsBusy(err) {
				t.Fatal(err)
			}
			break
		}
	}
	if n > maxUnits {
		t.Errorf("%d readings at one time", n)
	}
	if list, _, last := walk(x, m, &m.Threads[0], stop); last.Known && last.OK {
		t.Errorf("frames that were not read: %q", list)
	}
	stop += tracefs.Time(1e9)
	if _, err := word(x.mem, x.l.codeHeaps); err != nil {
		t.Error(err)
	}
}

// FuzzMemory: whatever a process has in its memory, finding callers ends, and takes no more
// readings than are allowed. The input is a list of changes of the image.
func FuzzMemory(f *testing.F) {
	m := openImage(f)
	x, _ := machine(f, m)
	pages := slices.Sorted(maps.Keys(m.Pages))
	change := func(addr, v uint64) []byte {
		i, _ := slices.BinarySearch(pages, addr/pageSize)
		b := binary.LittleEndian.AppendUint16(nil, uint16(i))
		b = binary.LittleEndian.AppendUint16(b, uint16(addr%pageSize))
		return binary.LittleEndian.AppendUint64(b, v)
	}
	f.Add([]byte{})
	f.Add(change(x.l.codeHeaps, 0))
	f.Add(change(x.heaps[0].segmap, 0))
	f.Add(change(x.l.codeHeaps, x.heaps[0].low))
	for i := range m.Threads {
		th := &m.Threads[i]
		f.Add(change(th.SP, th.SP))
		f.Add(change(th.FP, th.FP))
		if k := x.find(th.PC); k != nil {
			head := x.l.head(k.block)
			f.Add(change(head+uint64(x.l.nm.scopesData), head))
			f.Add(change(head+uint64(x.l.blob.frameSize), 1<<62))
		}
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		m := m.clone()
		const each, most = 12, 64
		for n := 0; len(input) >= each && n < most; n++ {
			page := pages[int(binary.LittleEndian.Uint16(input))%len(pages)]
			m.put(page*pageSize+uint64(binary.LittleEndian.Uint16(input[2:]))%pageSize, input[4:12]...)
			input = input[each:]
		}
		c := new(clock)
		x, err := Open(m, m.Symbols, NewNames(), new(Counts), c.now)
		if err != nil {
			return
		}
		for range 2 {
			for i := range m.Threads {
				walk(x, m, &m.Threads[i], c.now())
			}
			later(c)
			if err := x.Look(); err != nil {
				return
			}
		}
		if x.mem.used > 8*maxUnits || len(x.starts) != len(x.blobs) || !slices.IsSorted(x.starts) {
			t.Errorf("%d readings, %d starts, %d pieces of code", x.mem.used, len(x.starts), len(x.blobs))
		}
	})
}
