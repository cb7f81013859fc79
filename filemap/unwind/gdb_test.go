package unwind

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap/unwind/table"
	"ustack/tracefs/capturetest"
)

// areas is a Space of /proc/PID/maps.
type areas []area

type area struct {
	Mapping
	name string
}

func (a areas) Find(addr uint64) (Mapping, bool) {
	low, high := 0, len(a)
	for low < high {
		if mid := (low + high) / 2; a[mid].End <= addr {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(a) || addr < a[low].Start {
		return Mapping{}, false
	}
	return a[low].Mapping, true
}

// readMaps reads /proc/PID/maps; files are opened by their path.
func readMaps(t testing.TB, u *Unwinder, text string, vdso []byte) (out areas) {
	for line := range strings.Lines(text) {
		var a area
		var mode, device string
		var inode uint64
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %s %d", &a.Start, &a.End, &mode, &a.Offset, &device, &inode); err != nil {
			t.Fatal(line, err)
		}
		words := strings.Fields(line)
		a.Exec = mode[2] == 'x'
		if len(words) > 5 {
			a.name = words[5]
		}
		a.File = fileOf(u, a.name, vdso)
		out = append(out, a)
	}
	return out
}

// fileOf is the file of a mapping, nil for none.
func fileOf(u *Unwinder, name string, vdso []byte) *File {
	switch {
	case name == "[vdso]":
		return u.File(Source{Key: "vdso", Name: "[vdso]", Open: func() (*Binary, error) {
			return &Binary{ReaderAt: bytes.NewReader(vdso), Size: int64(len(vdso))}, nil
		}})
	case strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "//"): // perf: //anon
		return u.File(fileSource(name))
	}
	return nil
}

// fileSource is a file of this machine, with its debug file by build ID if it is
// installed.
func fileSource(name string) Source {
	return Source{Key: name, Name: name, Open: func() (*Binary, error) { return openBinary(name) }}
}

func openBinary(name string) (*Binary, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &Binary{ReaderAt: f, Size: info.Size(), Close: func() { f.Close() }}, nil
}

// record is a line of testdata/stacks.py.
type record struct {
	Maps   string
	VDSO   []byte
	Regs   []uint64
	Frames [][3]any
	Reason string
	Stack  []byte
	Limit  uint64
	// More is what lay At the stack pointer of what a signal interrupted.
	At   uint64
	More []byte
}

// read reads what a signal interrupted.
func (r *record) read(addr uint64, b []byte) bool {
	off := addr - r.At
	if off > uint64(len(r.More)) || uint64(len(b)) > uint64(len(r.More))-off {
		return false
	}
	copy(b, r.More[off:])
	return true
}

func (r *record) input(space Space) *Input {
	in := &Input{Machine: elf.EM_X86_64, Space: space, Stack: Stack{At: r.Regs[AMD64SP], Bytes: r.Stack, Limit: r.Limit}, Max: 400}
	for i, v := range r.Regs {
		in.Regs.Set(uint8(i), v)
	}
	if len(r.More) > 0 {
		in.Stack.Read = r.read
	}
	return in
}

// counts are what a comparison has found.
type counts struct {
	stacks, frames, wrong, gdbShort, ourShort, roots, signals int
	cloning                                                   int // stacks that stop in a clone (see inClone)
	blindRoots, blindCallers                                  int
	why                                                       map[string]int
}

// eachRecord calls f for each stack that stacks.py has written, with what was mapped
// then.
func eachRecord(t *testing.T, u *Unwinder, r io.Reader, f func(rec *record, space areas)) {
	t.Helper()
	var space areas
	b := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := b.ReadBytes('\n')
		if err != nil {
			return
		}
		var rec record
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&rec); err != nil {
			t.Fatal(err)
		}
		if rec.Maps != "" {
			space = readMaps(t, u, rec.Maps, rec.VDSO)
			continue
		}
		f(&rec, space)
	}
}

// compareStacks compares our stacks with gdb's.
func compareStacks(t *testing.T, r io.Reader) *counts {
	u := New(0)
	defer u.Close()
	c := &counts{why: make(map[string]int)}
	eachRecord(t, u, r, func(rec *record, space areas) {
		got, end := u.Unwind(rec.input(space), nil)
		c.add(t, rec, space, got, end)
		c.blind(t, u, rec.input(space), rec)
	})
	t.Logf("%d stacks, %d frames (%d of signals), %d to the root; %d wrong; ours ends before gdb's: %d (%d more in a clone), gdb's before ours: %d; ends: %v; without registers %d have a caller, %d the root; %d bytes of tables",
		c.stacks, c.frames, c.signals, c.roots, c.wrong, c.ourShort, c.cloning, c.gdbShort, c.why, c.blindCallers, c.blindRoots, u.Memory())
	return c
}

// add compares one stack.
func (c *counts) add(t *testing.T, rec *record, space areas, got []Frame, end End) {
	c.stacks++
	c.frames += len(got)
	if end.Why == Root {
		c.roots++
	}
	why := end.Why.String() + " " + end.Detail
	if end.File != nil && end.Why != Root {
		why += " " + filepath.Base(end.File.Name)
	}
	c.why[why]++
	rec.cut(space)
	for i := range min(len(got), len(rec.Frames)) {
		if got[i].Trampoline {
			c.signals++
		}
		if want := rec.pc(i); got[i].PC != want {
			if c.wrong++; c.wrong <= 5 {
				t.Errorf("frame %d is %#x, gdb has %#x\n%s", i, got[i].PC, want, show(rec, got, end))
			}
			return
		}
	}
	switch {
	case len(got) < len(rec.Frames) && inClone(got):
		c.cloning++
	case len(got) < len(rec.Frames):
		if c.ourShort++; c.ourShort <= 3 {
			t.Logf("shorter than gdb's:\n%s", show(rec, got, end))
		}
	case len(got) > len(rec.Frames):
		if c.gdbShort++; c.gdbShort <= 3 {
			t.Logf("longer than gdb's:\n%s", show(rec, got, end))
		}
	}
}

// inClone reports whether a stack was interrupted where a C library makes a thread
// (clone, clone3). Two threads come from the system call, the new one with an empty
// stack: so the tables leave out the instructions from there to where only the new one
// goes on, of which they say that it has no caller. gdb guesses.
func inClone(got []Frame) bool {
	if len(got) != 1 || !got[0].Exact || got[0].File == nil || got[0].File.image == nil {
		return false
	}
	const hole = 24 // bytes of instructions at most
	f := got[0].File
	addr, ok := f.image.Address(got[0].Offset)
	if !ok {
		return false
	}
	for at := addr; at < addr+hole; at++ {
		if r, t := f.find(at); r != nil {
			span, ok := t.Span(at)
			return at > addr && ok && span.Start == at && r.Return.Kind == table.Undefined
		}
	}
	return false
}

// blind compares the stack that is found with the program counter and the stack
// pointer only, as they are known of a blocked thread.
func (c *counts) blind(t *testing.T, u *Unwinder, in *Input, rec *record) {
	known := in.Regs
	in.Regs = Registers{}
	for _, n := range [...]uint8{AMD64PC, AMD64SP} {
		if v, ok := known.Get(n); ok {
			in.Regs.Set(n, v)
		}
	}
	got, end := u.Unwind(in, nil)
	if end.Why == Root {
		c.blindRoots++
	}
	if len(got) > 1 {
		c.blindCallers++
	}
	for i := range min(len(got), len(rec.Frames)) {
		if got[i].PC != rec.pc(i) {
			c.wrong++
			t.Errorf("without registers:\n%s", show(rec, got, end))
			return
		}
	}
}

// pc is gdb's address of a frame.
func (r *record) pc(i int) uint64 {
	pc, err := strconv.ParseUint(r.Frames[i][0].(json.Number).String(), 10, 64)
	if err != nil {
		return 0
	}
	return pc
}

// cut drops the frames that gdb believes in although they are not in code: it
// takes what lies above the first function of a program for its caller.
func (r *record) cut(space areas) {
	for i := range r.Frames {
		if m, ok := space.Find(r.pc(i)); !ok || !m.Exec {
			r.Frames = r.Frames[:i]
			return
		}
	}
}

func show(rec *record, got []Frame, end End) string {
	var b strings.Builder
	for i := range max(len(got), len(rec.Frames)) {
		if i < len(got) {
			name := "jit"
			if got[i].File != nil {
				name = filepath.Base(got[i].File.Name)
			}
			fmt.Fprintf(&b, "%2d %#x %s+%#x %v", i, got[i].PC, name, got[i].Offset, got[i].How)
		}
		if i < len(rec.Frames) {
			fmt.Fprintf(&b, "\t| gdb %#x %v", rec.pc(i), rec.Frames[i][1])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%v %#x want %d reg %d %s; gdb: %s", end.Why, end.Addr, end.Want, end.Register, end.Detail, rec.Reason)
	return b.String()
}

// stopped runs a program in gdb and compares its stacks.
func stopped(t *testing.T, stops int, env []string, program ...string) *counts {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the registers here are those of x86-64")
	}
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip(err)
	}
	out := filepath.Join(t.TempDir(), "stacks")
	args := append([]string{"-q", "-nx", "-batch", "-x", "testdata/stacks.py", "--args"}, program...)
	cmd := exec.Command(gdb, args...)
	cmd.Env = append(append(os.Environ(), "STACKS_OUT="+out, "STACKS_COPY=65536", fmt.Sprintf("STACKS_STOPS=%d", stops)), env...)
	text, err := cmd.CombinedOutput()
	f, openErr := os.Open(out)
	if openErr != nil {
		t.Skipf("gdb cannot run the script: %v %v\n%s", err, openErr, text)
	}
	defer f.Close()
	c := compareStacks(t, f)
	if c.stacks == 0 {
		t.Skipf("gdb has shown no stacks: %v\n%s", err, text)
	}
	return c
}

// build compiles a program of testdata.
func build(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip(err)
	}
	out := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-o", out, filepath.Join("testdata", source)}, flags...)
	if text, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Skipf("%s: %v\n%s", compiler, err, text)
	}
	return out
}

// TestInClone: of all code of a C library, the stops that are excused are those from
// the system call of a clone on, up to where the new thread is alone.
func TestInClone(t *testing.T) {
	capturetest.SkipShort(t)
	const name = "/lib/x86_64-linux-gnu/libc.so.6"
	x, err := elf.Open(name)
	if err != nil {
		t.Skip(err)
	}
	defer x.Close()
	code := x.Section(".text")
	text, err := code.Data()
	if err != nil {
		t.Fatal(err)
	}
	u := New(0)
	defer u.Close()
	f := u.File(fileSource(name))
	f.step(code.Offset, true) // loads the tables
	inClone := func(i int) bool {
		if r, _ := f.find(code.Addr + uint64(i)); r != nil {
			return false
		}
		return inClone([]Frame{{File: f, Offset: code.Offset + uint64(i), Exact: true}})
	}
	clones := 0
	for i := 0; i < len(text); i++ {
		first := i
		for i < len(text) && inClone(i) {
			i++
		}
		if i == first {
			continue
		}
		clones++
		t.Logf("%#x to %#x: % x", code.Addr+uint64(first), code.Addr+uint64(i), text[first:i])
		if syscall := []byte{0x0f, 0x05}; !bytes.HasPrefix(text[first:], syscall) || text[i-1] != 0xc3 { // ret, of the old thread
			t.Errorf("what is excused at %#x is no clone: % x", code.Addr+uint64(first), text[first:i])
		}
	}
	if clones == 0 || clones > 3 { // clone, clone3 and what else makes a thread
		t.Errorf("%d places are excused", clones)
	}
}

func TestGDBNoFramePointers(t *testing.T) {
	capturetest.NeedLong(t)
	p := build(t, "g++", "work.cc", "-O2", "-fomit-frame-pointer", "-pthread")
	c := stopped(t, 200, nil, p)
	if c.ourShort*20 > c.stacks {
		t.Errorf("%d of %d stacks are shorter than gdb's", c.ourShort, c.stacks)
	}
}

// TestGDBWaits: threads that wait, with and without the registers that are not
// known of them.
func TestGDBWaits(t *testing.T) {
	capturetest.NeedLong(t)
	for _, flag := range []string{"-O2", "-O1", "-O3"} {
		p := build(t, "g++", "waits.cc", flag, "-fomit-frame-pointer", "-pthread")
		c := stopped(t, 3, []string{"STACKS_FIRST=2.5"}, p)
		if c.ourShort > 0 || c.blindCallers < c.stacks {
			t.Errorf("%s: %d of %d stacks are shorter than gdb's, %d have a caller without registers", flag, c.ourShort, c.stacks, c.blindCallers)
		}
	}
}

// TestGDBOneStack: signal handlers on the stack of what they interrupt.
func TestGDBOneStack(t *testing.T) {
	capturetest.NeedLong(t)
	p := build(t, "g++", "work.cc", "-O2", "-fomit-frame-pointer", "-pthread", "-Wl,-z,lazy")
	stopped(t, 200, []string{"ONE_STACK=1"}, p)
}

// TestGDBDebugFrame: the program's own code has .debug_frame only, compressed.
func TestGDBDebugFrame(t *testing.T) {
	capturetest.NeedLong(t)
	p := build(t, "g++", "work.cc", "-O1", "-g", "-gz", "-fno-asynchronous-unwind-tables", "-fno-exceptions", "-DNO_THROW", "-pthread")
	stopped(t, 200, nil, p)
}

// TestGDBFramePointers: the program's own code has no table, but frame pointers.
func TestGDBFramePointers(t *testing.T) {
	capturetest.NeedLong(t)
	p := build(t, "g++", "work.cc", "-O1", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-exceptions", "-DNO_THROW", "-pthread")
	stopped(t, 200, nil, p)
}

// TestGDBPrograms: programs of this machine.
func TestGDBPrograms(t *testing.T) {
	capturetest.NeedLong(t)
	for _, p := range [][]string{
		{"/usr/bin/python3.11", "-c", pythonWork},
		{"/usr/bin/sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x+1 from c where x<100000000) select sum(x*random()), group_concat(x) from c order by random()"},
		{"/usr/bin/perl", "-e", "my %h; while (1) { my $s = join ',', map { $_ * 3 } sort { $b <=> $a } 1..200; $h{$s =~ s/1(.)2/$1/gr}++; sub f { $_[0] ? f($_[0]-1) : 0 } f(40) }"},
		{"/usr/bin/openssl", "speed", "-seconds", "60", "rsa2048", "sha256"},
		{"/usr/bin/xz", "-9e", "-T2", "-k", "-c", "/usr/bin/gdb"},
	} {
		t.Run(filepath.Base(p[0]), func(t *testing.T) {
			if _, err := os.Stat(p[0]); err != nil {
				t.Skip(err)
			}
			stopped(t, 150, nil, p...)
		})
	}
}

const pythonWork = `
import threading, json, re, time, zlib
lock = threading.Lock()
def f(n):
    with lock:
        s = json.dumps(sorted([{"a": i, "b": str(i) * 3} for i in range(n)], key=lambda d: -d["a"]))
    re.sub(r"(\d+)\1", lambda m: m.group(1), s); zlib.compress(s.encode())
    return f(n - 1) if n > 60 else 0
for _ in range(4):
    threading.Thread(target=lambda: [f(80) for _ in iter(int, 1)], daemon=True).start()
while True: f(70); time.sleep(0.001)
`
