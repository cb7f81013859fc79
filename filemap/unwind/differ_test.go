package unwind

import (
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const hostMachine = elf.EM_X86_64

// theirFrame is a frame as gdb or perf has it.
type theirFrame struct {
	pc   uint64
	name string
}

// agreement is how our stacks compare with those of gdb or perf.
type agreement struct {
	with                  string
	stacks, frames, equal int
	callers               int // stacks with a caller that is found without registers
	distinct              map[string]bool
	diffs                 map[difference]*found
	before                bool // callers have the address before the one where they go on
}

// difference is a kind of difference, and the file of the last frame that is the same.
type difference struct {
	kind string
	file string
}

// found is what was found of a difference.
type found struct {
	count   int
	astray  int // stacks of theirs that go on to an address outside of code
	example string
}

// Kinds of differences.
const (
	differ       = "a frame differs"
	differBlind  = "without registers, a frame differs"
	theyGoOn     = "ours ends (%s), theirs goes on"
	theyStray    = "ours ends (%s), theirs goes on outside of code"
	theyGoOnLeft = "ours ends (unknown register), theirs goes on from the end of a function"
	weGoOn       = "theirs ends, ours goes on"
	weGoOnLeft   = "theirs ends, ours goes on from the end of a function"
	weGoOnCode   = "theirs ends, ours goes on by the code"
	weGoOnGo     = "theirs ends, ours goes on by Go's table"
	weGoOnAfter  = "theirs goes on outside of code, ours in code"
	weGoOnByCode = "theirs goes on outside of code, ours by the code to the root"

	theyGoOnStart     = "ours ends (root reached), theirs goes on to what started the thread"
	theyGoOnStale     = "ours ends (switch of stacks), theirs goes on to one more in code"
	theyGuessUnfiled  = "the same up to code without a file and with it, theirs goes on"
	theyGuessBuiltin  = "ours comes from code without a table to code without a file, theirs does not"
	theyGuessCloning  = "ours ends in a clone of a thread, theirs goes on"
	theyGuessUntabled = "ours ends (no unwind information), theirs goes on from code without a table"
)

func newAgreement(with string) *agreement {
	return &agreement{with: with, distinct: make(map[string]bool), diffs: make(map[difference]*found)}
}

// same reports whether a frame of theirs is ours.
func (a *agreement) same(ours *Frame, theirs uint64) bool {
	return ours.PC == theirs || a.before && ours.PC == theirs+1
}

// add compares one stack.
func (a *agreement) add(space areas, stack *Stack, got []Frame, end End, theirs []theirFrame, reason string) {
	a.stacks++
	a.frames += len(got)
	var key strings.Builder
	for i := range got {
		fmt.Fprintf(&key, "%x ", got[i].PC)
	}
	a.distinct[key.String()] = true
	code := inCode(space, theirs)
	n := 0
	for n < min(len(got), code) && a.same(&got[n], theirs[n].pc) {
		n++
	}
	kind := a.specially(kindOf(n, len(got), code, len(theirs), end), &stacks{space, stack, got, end, theirs, n, code})
	if kind == "" {
		a.equal++
		return
	}
	a.note(kind, n, got, end, theirs[:code], theirs[code:], reason)
}

// inCode is how many frames of theirs are in code, before one that is not.
func inCode(space areas, theirs []theirFrame) (n int) {
	for n < len(theirs) {
		if m, ok := space.Find(theirs[n].pc); !ok || !m.Exec {
			break
		}
		n++
	}
	return n
}

// note notes a difference after n frames.
func (a *agreement) note(kind string, n int, got []Frame, end End, theirs, astray []theirFrame, reason string) {
	d := difference{kind: kind}
	if n > 0 && got[n-1].File != nil {
		d.file = filepath.Base(got[n-1].File.Name)
	}
	f := a.diffs[d]
	if f == nil {
		f = &found{example: both(got, end, slices.Concat(theirs, astray), reason)}
		a.diffs[d] = f
	}
	f.count++
	if len(astray) > 0 {
		f.astray++
	}
}

// kindOf is the kind of a difference after n frames that are the same, "" for none.
// Of theirs all have so many frames, and the first ones in code.
func kindOf(n, ours, code, all int, end End) string {
	switch {
	case n < ours && n < code:
		return differ
	case n < code:
		return fmt.Sprintf(theyGoOn, end.Why)
	case n == ours && code < all:
		return fmt.Sprintf(theyStray, end.Why)
	case n < ours && code < all:
		return weGoOnAfter
	case n < ours:
		return weGoOn
	}
	return ""
}

// both are two stacks side by side.
func both(got []Frame, end End, theirs []theirFrame, reason string) string {
	var b strings.Builder
	for i := range max(len(got), len(theirs)) {
		ours, other := "", ""
		if i < len(got) {
			f := &got[i]
			name := "no file"
			if f.File != nil {
				name = filepath.Base(f.File.Name)
			}
			ours = fmt.Sprintf("%#x %s+%#x %v", f.PC, name, f.Offset, f.How)
		}
		if i < len(theirs) {
			other = fmt.Sprintf("%#x %s", theirs[i].pc, theirs[i].name)
		}
		fmt.Fprintf(&b, "    %2d %-60s | %s\n", i, ours, other)
	}
	fmt.Fprintf(&b, "    %v, address %#x, wants %d, register %d, %s; theirs: %s", end.Why, end.Addr, end.Want, end.Register, end.Detail, reason)
	return b.String()
}

// report prints a row of the table and the differences.
func (a *agreement) report(t *testing.T, name string) {
	t.Helper()
	other := 0 // stacks with another frame, not only another end
	for d, f := range a.diffs {
		if d.kind == differ || d.kind == differBlind {
			other += f.count
		}
	}
	fmt.Printf("| %s | %s | %d | %d | %d | %d | %d |\n", name, a.with, a.stacks, len(a.distinct), a.frames, other, a.stacks-a.equal)
	if a.callers > 0 {
		fmt.Printf("  with the program counter and the stack pointer alone, %d have a caller\n", a.callers)
	}
	for _, d := range slices.SortedFunc(maps.Keys(a.diffs), func(x, y difference) int { return a.diffs[y].count - a.diffs[x].count }) {
		f := a.diffs[d]
		fmt.Printf("  %d stacks, %d of theirs with an address outside of code: %s, after %s\n", f.count, f.astray, d.kind, d.file)
		if j := d.judge(a.with); j != nil {
			fmt.Printf("  right: %s; %s\n", j.right, j.why)
		} else {
			t.Errorf("%d stacks, and no judgement: %s", f.count, d.kind)
		}
		fmt.Println(f.example)
	}
}

// TestAgreement compares our stacks with those that .ci/compare has left in the
// directory USTACK_COMPARE.
func TestAgreement(t *testing.T) {
	dir := os.Getenv("USTACK_COMPARE")
	if dir == "" {
		t.Skip("USTACK_COMPARE names no directory of .ci/compare")
	}
	name, err := os.ReadFile(filepath.Join(dir, "name"))
	if err != nil {
		t.Fatal(err)
	}
	u := New(0)
	defer u.Close()
	t.Run("gdb", func(t *testing.T) { withGDB(t, u, dir).report(t, strings.TrimSpace(string(name))) })
	t.Run("perf", func(t *testing.T) { withPerf(t, u, dir).report(t, strings.TrimSpace(string(name))) })
}

func withGDB(t *testing.T, u *Unwinder, dir string) *agreement {
	t.Helper()
	a := newAgreement("gdb")
	names, err := filepath.Glob(filepath.Join(dir, "gdb.[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		a.fromGDB(t, u, f)
		f.Close()
	}
	return a
}

func (a *agreement) fromGDB(t *testing.T, u *Unwinder, r io.Reader) {
	t.Helper()
	eachRecord(t, u, r, func(rec *record, space areas) {
		var theirs []theirFrame
		for i := range rec.Frames {
			name, _ := rec.Frames[i][1].(string)
			theirs = append(theirs, theirFrame{rec.pc(i), name})
		}
		in := rec.input(space)
		got, end := u.Unwind(in, nil)
		a.add(space, &in.Stack, got, end, theirs, rec.Reason)
		in.Regs = Registers{} // but for what is known of a blocked thread
		in.Regs.Set(AMD64PC, rec.Regs[AMD64PC])
		in.Regs.Set(AMD64SP, rec.Regs[AMD64SP])
		got, end = u.Unwind(in, nil)
		a.blind(got, end, theirs[:inCode(space, theirs)], rec.Reason)
	})
}

// blind compares a stack that was unwound without registers, as far as it goes.
func (a *agreement) blind(got []Frame, end End, theirs []theirFrame, reason string) {
	if len(got) > 1 {
		a.callers++
	}
	for n := range min(len(got), len(theirs)) {
		if !a.same(&got[n], theirs[n].pc) {
			a.note(differBlind, n, got, end, theirs, nil, reason)
			return
		}
	}
}

func withPerf(t *testing.T, u *Unwinder, dir string) *agreement {
	t.Helper()
	a := newAgreement("perf")
	a.before = true
	d, err := readPerfData(filepath.Join(dir, "perf.data"))
	if err != nil {
		t.Skip(err)
	}
	script := readPerfScript(t, filepath.Join(dir, "perf.txt"))
	vdso := ownVDSO(t)
	spaces := make(perfSpaces)
	for i := range d.records {
		r := &d.records[i]
		spaces.note(u, r, vdso)
		if r.kind != 9 {
			continue
		}
		s, ok := d.sample(r)
		if !ok {
			t.Logf("a sample without registers or stack")
			continue
		}
		said := script[fmt.Sprintf("%d %d.%09d", s.tid, s.time/1e9, s.time%1e9)]
		if said == nil {
			t.Errorf("perf script has no stack of thread %d at %d", s.tid, s.time)
			continue
		}
		a.fromPerf(u, spaces[s.pid], &s, said)
	}
	return a
}

func (a *agreement) fromPerf(u *Unwinder, space areas, s *perfSample, said perfStack) {
	sp, _ := s.regs.Get(AMD64SP)
	in := &Input{Machine: hostMachine, Regs: s.regs, Space: space, Stack: Stack{At: sp, Bytes: s.stack}, Max: 400}
	got, end := u.Unwind(in, nil)
	var theirs []theirFrame
	for i, f := range said {
		pc, ok := space.address(f.file, f.offset, func(pc uint64) bool { return i < len(got) && a.same(&got[i], pc) })
		if !ok {
			pc = f.offset
		}
		theirs = append(theirs, theirFrame{pc, f.name})
	}
	a.add(space, &in.Stack, got, end, theirs, "")
}

// ownVDSO is the vDSO, which is the same in all processes.
func ownVDSO(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer mem.Close()
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			var start, end int64
			if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, end-start)
			if _, err := mem.ReadAt(b, start); err != nil {
				t.Skip(err)
			}
			return b
		}
	}
	return nil
}
