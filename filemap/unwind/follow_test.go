package unwind

import (
	"bufio"
	"bytes"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/callsite"
	"ustack/filemap/unwind/follow"
	"ustack/filemap/unwind/table"
	"ustack/tracefs/capturetest"
)

// untabled is a file as if it had no tables.
type untabled struct {
	*File
	named bool // where functions begin is known
}

func (u untabled) Described(uint64) *table.Rules { return nil }
func (u untabled) Begins(addr uint64) bool       { return u.named && u.File.Begins(addr) }
func (u untabled) Complete() bool                { return u.named && u.File.Complete() }

// againstTables is how what the code says compares with what the tables say.
type againstTables struct {
	f     untabled
	every int // of so many instructions, one is looked at

	looked, found, wrong, other, registers, wrongRegisters int
}

// compare compares all functions of a file.
func (c *againstTables) compare(t *testing.T) {
	t.Helper()
	number := 0
	c.f.tables[0].Functions(func(s table.Span) bool {
		section := c.f.image.InCode(s.Start)
		code, err := c.f.image.CodeAt(s.Start, s.End-s.Start)
		if err != nil || section == nil || strings.HasPrefix(section.Name, ".plt") || c.f.begin(s.Start) {
			return true
		}
		eachInstruction(code, s.Start, func(at uint64, after bool) {
			if number++; number%c.every == 0 {
				c.look(t, at, after)
			}
		})
		return true
	})
}

// eachInstruction calls f for each instruction of a function, but for padding that
// nothing leads to; after: it follows a call.
func eachInstruction(code []byte, start uint64, f func(at uint64, after bool)) {
	after, gap := false, false
	for at := start; at < start+uint64(len(code)); {
		e, ok := callsite.Decode(code[at-start:], at)
		if !ok {
			return
		}
		if gap = gap && e.Kind == callsite.Straight && e.Op == callsite.Nothing; !gap {
			f(at, after)
		}
		after = e.Kind == callsite.Call || e.Kind == callsite.CallIndirect
		gap = gap || e.Op == callsite.Return || e.Op == callsite.Halt || e.Kind == callsite.JumpIndirect || e.Kind == callsite.Jump && !e.Conditional
		at = e.End()
	}
}

// look compares one instruction.
func (c *againstTables) look(t *testing.T, at uint64, after bool) {
	t.Helper()
	in := at
	if after {
		in--
	}
	want, _ := c.f.find(in)
	if want == nil || want.Return.Kind == table.Undefined || want.Base.Kind != table.IsRegister {
		return
	}
	c.looked++
	a, _ := follow.Caller(c.f, c.f.following.starts, at, after, 1<<20)
	if !c.f.named {
		a, _ = follow.Forward(c.f, at, after, 1<<20)
	}
	switch got := a.Rules; {
	case a.Root && !c.f.named: // Caller asks for more
	case a.Root:
		c.wrong++
		t.Logf("%#x, after %v: nothing has called it?", at, after)
	case got == nil || a.Doubt: // a doubt has to be dispelled by the return address
	case got.Base.Kind != table.IsRegister || got.Base.Reg != want.Base.Reg:
		c.other++
	case got.Base.N != want.Base.N && mistaken(c.f.File, in):
	case got.Base.N != want.Base.N:
		if c.wrong++; c.wrong < 40 {
			t.Logf("%#x, after %v: %+v, the table has %+v", at, after, got.Base, want.Base)
		}
	default:
		c.found++
		c.compareRegisters(t, at, got, want)
	}
}

// compareRegisters compares where the caller's registers are. Tables go on to say so after
// they have been taken off the stack.
func (c *againstTables) compareRegisters(t *testing.T, at uint64, got, want *table.Rules) {
	for _, reg := range [...]uint8{3, 6, 12, 13, 14, 15} {
		ours, theirs := ruleOf(got, reg), ruleOf(want, reg)
		if theirs.Kind == table.At && want.Base.Reg == AMD64SP && theirs.N+want.Base.N < 0 || ours.Kind == table.Undefined {
			continue
		}
		c.registers++
		late := ours.Kind == table.At && theirs.Kind == table.Unsaid
		early := ours.Kind == table.Unsaid && want.Base.Reg == AMD64FP // it has been loaded again
		if ours != theirs && !late && !early {
			c.wrongRegisters++
			t.Logf("%#x: register %d: %+v, the table has %+v", at, reg, ours, theirs)
		}
	}
}

func ruleOf(r *table.Rules, reg uint8) table.Rule {
	i := slices.IndexFunc(r.Others, func(x table.Rule) bool { return x.Of == reg })
	if i < 0 {
		return table.Rule{}
	}
	x := r.Others[i]
	return table.Rule{Kind: x.Kind, Of: x.Of, N: x.N}
}

// openFollowed opens a file with what following needs.
func openFollowed(u *Unwinder, s Source) *File {
	f := u.File(s)
	f.load()
	f.prepare()
	f.following.starts = follow.NewStarts(f.image, true)
	return f
}

// TestFollowTables: at each instruction of a program that has tables its code says the same
// as they do, or nothing.
func TestFollowTables(t *testing.T) {
	for _, named := range []bool{true, false} {
		u := New(0)
		defer u.Close()
		program := capturetest.Gunzip(t, "testdata/tiny/amd64.gz")
		f := openFollowed(u, Source{Key: "tiny", Open: func() (*Binary, error) {
			return &Binary{ReaderAt: bytes.NewReader(program), Size: int64(len(program))}, nil
		}})
		c := againstTables{f: untabled{f, named}, every: 1}
		c.compare(t)
		t.Logf("functions known: %v; of %d instructions, %d found, %d wrong, %d by another register; %d registers, %d wrong",
			named, c.looked, c.found, c.wrong, c.other, c.registers, c.wrongRegisters)
		if c.wrong+c.wrongRegisters > 0 || (c.found+c.other)*10 < c.looked*9 {
			t.Error("too few, or wrong ones")
		}
	}
}

// mistaken are functions of assembler code in Debian's glibc (sysdeps/x86_64/mul_1.S and
// its like, __mpn_*) whose tables do not have the registers that they push.
func mistaken(f *File, at uint64) bool {
	r, t := f.find(at)
	span, ok := t.Span(at)
	if !ok || r.Base.N != 8 {
		return false
	}
	code, err := f.image.CodeAt(span.Start, 16)
	return err == nil && (code[0] == 0x53 || code[0] == 0x55 || code[0] == 0x41) && len(r.Others) == 0
}

// TestFollowLibraries: the same for programs and libraries of this machine.
func TestFollowLibraries(t *testing.T) {
	capturetest.NeedLong(t)
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/bin/bash"} {
		if _, err := os.Stat(name); err != nil {
			t.Skip(err)
		}
		u := New(0)
		defer u.Close()
		f := openFollowed(u, fileSource(name))
		c := againstTables{f: untabled{f, true}, every: stops(397, 97)}
		c.compare(t)
		t.Logf("%s: of %d instructions, %d found, %d wrong, %d by another register; %d registers, %d wrong", name, c.looked, c.found, c.wrong, c.other, c.registers, c.wrongRegisters)
		if c.wrong+c.wrongRegisters > 0 || c.found*10 < c.looked*7 {
			t.Error("too few, or wrong ones")
		}
	}
}

var followStacks = flag.Int("follow-stacks", 300, "stacks of each program of TestFollowBuilds")

// TestFollowBuilds: stacks of programs without tables, built in many ways, are the ones that
// the programs have noted themselves.
func TestFollowBuilds(t *testing.T) {
	capturetest.NeedLong(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the code is x86-64's")
	}
	for _, level := range []string{"-O0", "-O1", "-O2", "-O3", "-Os", "-Og"} {
		for _, more := range []string{"-fomit-frame-pointer", "-fno-omit-frame-pointer", "-fomit-frame-pointer -s"} {
			t.Run(level+" "+more, func(t *testing.T) {
				t.Parallel()
				flags := append(strings.Fields(more), level, "-DTINY", "-nostdlib", "-static", "-ffreestanding", "-w",
					"-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-dwarf2-cfi-asm", "-Wl,--no-eh-frame-hdr", fmt.Sprintf("-DCOUNT=%d", *followStacks))
				runFollowed(t, build(t, "gcc", "self.c", flags...))
			})
		}
	}
}

// runFollowed runs a program of testdata/self.c and compares its stacks.
func runFollowed(t *testing.T, program string) {
	t.Helper()
	if out, err := exec.Command("objcopy", "-R", ".eh_frame", program).CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	text, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	u := New(0)
	defer u.Close()
	s := &selfReader{r: bufio.NewReader(bytes.NewReader(text))}
	space := readMaps(t, u, string(s.bytes()), nil)
	selfCheck{how: Code}.run(t, u, elf.EM_X86_64, s, space)
}

// TestFollowingBound: a file may be followed for a bounded number of instructions, and more
// only as stacks lead through. What was refused is not kept.
func TestFollowingBound(t *testing.T) {
	u := New(0)
	defer u.Close()
	m, all, space := tinyStacks(t, u, "amd64-fp")
	spend := func() (f *File) {
		for _, f = range u.files {
			if f.following.starts != nil {
				f.following.credit.left = 0
				clear(f.steps)
				clear(f.following.arrivals)
				clear(u.hot[:])
				return f
			}
		}
		return nil
	}
	if _, end := u.Unwind(all[0].input(m, space), nil); end.Why != Root {
		t.Fatalf("%+v", end)
	}
	f := spend()
	got, end := u.Unwind(all[0].input(m, space), nil)
	if len(got) != 1 || end.Why != NoInformation || !strings.Contains(end.Detail, "too much") || len(f.steps) != 0 {
		t.Fatalf("%d frames, %+v, %d steps kept", len(got), end, len(f.steps))
	}
	u.tick += fileBurst / fileEach
	if _, end := u.Unwind(all[0].input(m, space), nil); end.Why != Root {
		t.Errorf("%+v", end)
	}
	u.tick += 1 << 40
	u.forStack = 1 << 30
	if n, ok := f.afford(); n != fileBurst || !ok {
		t.Errorf("%d instructions after a long time", n)
	}
	u.credit.left, u.credit.tick = 0, u.tick // all files together
	if n, ok := f.afford(); n != 0 || ok {
		t.Errorf("%d instructions, of all files none", n)
	}
	u.credit.left, u.forStack = allBurst, 10 // the stack
	if n, ok := f.afford(); n != 10 || ok {
		t.Errorf("%d instructions, of the stack 10", n)
	}
}
