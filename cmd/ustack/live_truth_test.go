//go:build linux

package main

import (
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ustack/tracefs/capturetest"
)

// program is what is true of an ELF file: by readers that are not ours.
type program struct {
	file    *elf.File
	buildID string
	symbols []elf.Symbol
}

func readBinary(t testing.TB, path string) *program {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	b := &program{file: f}
	if s := f.Section(".note.gnu.build-id"); s != nil {
		data, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		const header = 16 // of a note whose name is GNU
		b.buildID = hex.EncodeToString(data[header:])
	}
	for _, read := range []func() ([]elf.Symbol, error){f.Symbols, f.DynamicSymbols} {
		list, _ := read() // ErrNoSymbols: one of the two is enough
		b.symbols = append(b.symbols, list...)
	}
	return b
}

// address is the virtual address of a file offset in code, as the linker saw
// it.
func (b *program) address(offset uint64) (uint64, bool) {
	for _, p := range b.file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && offset >= p.Off && offset < p.Off+p.Filesz {
			return offset - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// function is the symbol at a virtual address.
func (b *program) function(addr uint64) string {
	for _, s := range b.symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 && addr >= s.Value && addr < s.Value+s.Size {
			return s.Name
		}
	}
	return ""
}

// truth checks stacks against the files on disk.
type truth struct {
	t testing.TB
	// files are the files by the path that a stack may show.
	files map[string]*program
	mu    sync.Mutex // tests that run side by side share one
	// bias is how far each process has each file from where it was linked.
	bias map[string]uint64
	// frames of file-backed memory, and those without a name.
	frames, nameless int
}

func newTruth(t testing.TB) *truth {
	return &truth{t: t, files: make(map[string]*program), bias: make(map[string]uint64)}
}

// file makes a file known by a path, and returns its real path.
func (tr *truth) file(shown, path string) {
	tr.t.Helper()
	tr.files[shown] = readBinary(tr.t, path)
}

// libraries makes the libraries of a program known (ldd).
func (tr *truth) libraries(program string) {
	tr.t.Helper()
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return // linked statically
	}
	for _, word := range strings.Fields(string(out)) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		real, err := filepath.EvalSymlinks(word)
		if err != nil {
			tr.t.Fatal(err)
		}
		tr.file(real, real)
	}
}

// chain is a stack as names of functions, "[memory]", or "?" for a frame
// outside of all functions of a file that is right. Whatever is wrong about the
// stack fails the test.
func (tr *truth) chain(e *liveEvent) []string {
	tr.t.Helper()
	var names []string
	for i, f := range e.Stack {
		names = append(names, tr.frame(e, i, &f))
	}
	return names
}

func (tr *truth) frame(e *liveEvent, i int, f *liveFrame) string {
	tr.t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if f.Path == "" {
		if f.Reason == "" {
			tr.t.Errorf("process %d, frame %d: neither file nor reason", e.PID, i)
		}
		if f.Memory != "" {
			return f.Memory
		}
		tr.nameless++
		return "(" + f.Reason + ")"
	}
	tr.frames++
	b := tr.files[f.Path]
	if b == nil {
		tr.t.Errorf("process %d, frame %d: %s is none of the files it has", e.PID, i, f.Path)
		return "!"
	}
	if f.BuildID != b.buildID {
		tr.t.Errorf("process %d, frame %d: build ID %s of %s, readelf has %s", e.PID, i, f.BuildID, f.Path, b.buildID)
	}
	offset := hexValue(tr.t, f.Offset)
	addr, ok := b.address(offset)
	if !ok {
		tr.t.Errorf("process %d, frame %d: %s has no code at offset %#x", e.PID, i, f.Path, offset)
		return "!"
	}
	if f.Address != "" {
		key := fmt.Sprint(e.PID, " ", f.Path, " ", f.BuildID)
		bias := hexValue(tr.t, f.Address) - addr
		if was, seen := tr.bias[key]; seen && was != bias {
			tr.t.Errorf("process %d: %s is at %#x and at %#x", e.PID, f.Path, was, bias)
		}
		tr.bias[key] = bias
	}
	if i > 0 {
		addr-- // a return address
	}
	if name := b.function(addr); name != "" {
		return name
	}
	return "?"
}

// workload is the C workload and its truth.
func workload(t testing.TB) (*truth, string) {
	t.Helper()
	needLive(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work load") // the blank is on purpose
	compile(t, work, "work.c", "-ldl")
	tr := newTruth(t)
	tr.file(work, work)
	tr.libraries(work)
	return tr, work
}

// waits are the functions in which the workload waits, innermost first.
var waits = []string{"wait_inner", "wait_middle", "wait_outer"}

// count counts the stacks that begin with these functions. All stacks that
// begin in wait_inner must.
func (tr *truth) count(events []liveEvent, want ...string) int {
	tr.t.Helper()
	n := 0
	for i := range events {
		names := tr.chain(&events[i])
		if names[0] != waits[0] {
			continue
		}
		if len(names) < len(want) || !slices.Equal(names[:len(want)], want) {
			tr.t.Errorf("stack %v, want %v first", names, want)
			continue
		}
		n++
	}
	return n
}

func TestLiveThreads(t *testing.T) {
	tr, work := workload(t)
	r := traceLive(t, nil, work, "herd")
	// Four threads wait 20 times each; an entry and an exit.
	if n := tr.count(r.events, append(slices.Clone(waits), "hold_lock", "contender")...); n != 160 {
		t.Errorf("%d stacks of waiting threads, want 160", n)
	}
}

// TestLiveStorm: processes that live for 2 ms, made by fork and vfork.
func TestLiveStorm(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	const processes = 400
	r := traceLive(t, nil, work, "storm", fmt.Sprint(processes))
	if n := tr.count(r.events, append(slices.Clone(waits), "main")...); n != 2*processes {
		t.Errorf("%d stacks, want %d\n%s", n, 2*processes, r.stderr)
	}
	if tr.nameless*1000 > tr.frames {
		t.Errorf("%d frames without a name, %d with", tr.nameless, tr.frames)
	}
}

// TestLiveGo is the storm of a program that needs no C compiler.
func TestLiveGo(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "gowork")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", work, "./testdata/live/gowork").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	tr := newTruth(t)
	tr.file(work, work)
	const processes = 30
	r := traceLive(t, nil, work, "storm", fmt.Sprint(processes))
	n := 0
	for i := range r.events {
		names := tr.chain(&r.events[i])
		at := slices.Index(names, "main.wait_inner")
		if at < 0 {
			continue
		}
		n++
		want := []string{"main.wait_inner", "main.wait_middle", "main.wait_outer", "main.main"}
		if len(names) < at+len(want) || !slices.Equal(names[at:at+len(want)], want) {
			t.Errorf("stack %v", names)
		}
	}
	if n != 2*processes {
		t.Errorf("%d stacks, want %d", n, 2*processes)
	}
	if tr.nameless*1000 > tr.frames {
		t.Errorf("%d frames without a name, %d with", tr.nameless, tr.frames)
	}
}

func TestLiveForks(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	r := traceLive(t, nil, work, "forks", "50")
	if n := tr.count(r.events, append(slices.Clone(waits), "forks")...); n != 100 {
		t.Errorf("%d stacks, want 100", n)
	}
}

// TestLivePlugins: libraries that come and go at one address.
func TestLivePlugins(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	var libs []string
	for i, pad := range []string{"1", "7"} {
		lib := filepath.Join(filepath.Dir(work), fmt.Sprintf("lib %d.so", i))
		compile(t, lib, "plugin.c", "-shared", "-fPIC", "-DPAD="+pad)
		tr.file(lib, lib)
		libs = append(libs, lib)
	}
	order := []string{libs[0], libs[1], libs[1], libs[0], libs[1]}
	r := traceLive(t, nil, append([]string{work, "plugins"}, order...)...)
	if n := tr.count(r.events, append(slices.Clone(waits), "plugin_run", "plugins")...); n != 2*len(order) {
		t.Errorf("%d stacks, want %d", n, 2*len(order))
	}
	var got []string
	for _, e := range r.events {
		if len(e.Stack) > 3 && strings.HasPrefix(e.Name, "sys_enter") && slices.Contains(libs, e.Stack[3].Path) {
			got = append(got, e.Stack[3].Path)
		}
	}
	if !slices.Equal(got, order) {
		t.Errorf("libraries %q, want %q", got, order)
	}
}

// TestLiveJIT: code in memory without a file.
func TestLiveJIT(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	r := traceLive(t, nil, work, "jit")
	if n := tr.count(r.events, append(slices.Clone(waits), "[anon]", "jit")...); n != 2 {
		t.Errorf("%d stacks, want 2", n)
	}
}

// TestLiveMoved: code whose mapping was moved by mremap, which the kernel does not
// report.
func TestLiveMoved(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	file := filepath.Join(filepath.Dir(work), "moved")
	if out, err := exec.Command(work, "jitfile", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := traceLive(t, nil, work, "moved", file)
	found := 0
	for _, e := range r.events {
		for _, f := range e.Stack {
			if f.Path == file {
				found++
			}
		}
	}
	if found != 2 {
		t.Errorf("the moved file in %d frames, want 2", found)
	}
	_ = tr
}

// TestLiveReplaced: the program is another one at the second run, and has no
// name any more at the third.
func TestLiveReplaced(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	other := filepath.Join(t.TempDir(), "other")
	compile(t, other, "work.c", "-ldl", "-DPAD", "-O1")
	want := append(slices.Clone(waits), "main")

	r := traceLive(t, nil, work, "once")
	first := readBinary(t, work).buildID
	if n := tr.count(r.events, want...); n != 2 {
		t.Errorf("%d stacks, want 2", n)
	}
	if err := os.Rename(other, work); err != nil {
		t.Fatal(err)
	}
	tr.file(work, work)
	if tr.files[work].buildID == first {
		t.Fatal("the other program has the same build ID")
	}
	r = traceLive(t, nil, work, "once")
	if n := tr.count(r.events, want...); n != 2 {
		t.Errorf("%d stacks, want 2", n)
	}
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.Link(work, kept); err != nil {
		t.Fatal(err)
	}
	tr.file(work+" (deleted)", kept)
	r = traceLive(t, nil, work, "unlink")
	if n := tr.count(r.events, want...); n != 2 {
		t.Errorf("%d stacks, want 2", n)
	}
}

func TestLiveExitCode(t *testing.T) {
	_, work := workload(t)
	if r := traceLive(t, nil, work, "status", "7"); r.code != 7 {
		t.Errorf("exit code %d, want 7\n%s", r.code, r.stderr)
	}
}
