package unwind

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"ustack/filemap/unwind/table"
)

// stacks are ours and theirs of the same thread at the same time.
type stacks struct {
	space  areas
	stack  *Stack
	got    []Frame
	end    End
	theirs []theirFrame
	n      int // frames that are the same
	code   int // of theirs that are in code, before one that is not
}

// special are kinds of differences that depend on the code at hand, so that a judgement of
// one excuses nothing else.
var special = []struct {
	of   []string // nil is any
	kind string
	fits func(a *agreement, s *stacks) bool
}{
	{[]string{weGoOn}, weGoOnLeft, func(_ *agreement, s *stacks) bool {
		f := &s.got[0]
		return f.File != nil && f.File.step(f.Offset, true).leaving
	}},
	{[]string{fmt.Sprintf(theyGoOn, UnknownRegister)}, theyGoOnLeft, func(_ *agreement, s *stacks) bool { return emptied(&s.got[0], s.end.Register) }},
	{nil, theyGuessUnfiled, (*agreement).sameUnfiled},
	{[]string{fmt.Sprintf(theyGoOn, NoMap), fmt.Sprintf(theyStray, NoMap)}, theyGuessBuiltin, (*agreement).fromBuiltin},
	{noInformation, theyGuessCloning, func(_ *agreement, s *stacks) bool { return inClone(s.got) }},
	{noInformation, theyGuessUntabled, func(_ *agreement, s *stacks) bool { return withoutTable(s.last()) }},
	{[]string{weGoOn}, weGoOnCode, (*agreement).byCode},
	{[]string{weGoOn}, weGoOnGo, func(_ *agreement, s *stacks) bool { return s.got[s.n].How == GoTable }},
	{[]string{weGoOnAfter}, weGoOnByCode, func(a *agreement, s *stacks) bool { return a.byCode(s) && s.end.Why == Root }},
	{[]string{fmt.Sprintf(theyGoOn, Switch)}, theyGoOnStale, func(_ *agreement, s *stacks) bool {
		f := s.last()
		return s.code == s.n+1 && s.n == len(s.got) && f.File.step(f.Offset, f.Exact).goPlace.Switches
	}},
	{[]string{fmt.Sprintf(theyGoOn, Root)}, theyGoOnStart, func(_ *agreement, s *stacks) bool {
		return s.code == s.n+1 && s.theirs[s.n].name == "runtime.clone"
	}},
}

// noInformation are the kinds of stacks of ours that lack a table.
var noInformation = []string{fmt.Sprintf(theyGoOn, NoInformation), fmt.Sprintf(theyStray, NoInformation)}

// specially returns the kind of a difference, with what the code at hand says of it.
func (a *agreement) specially(kind string, s *stacks) string {
	if kind == "" {
		return ""
	}
	for i := range special {
		if c := &special[i]; (c.of == nil || slices.Contains(c.of, kind)) && c.fits(a, s) {
			return c.kind
		}
	}
	return kind
}

// last is the last frame of ours, nil for none.
func (s *stacks) last() *Frame {
	if len(s.got) == 0 {
		return nil
	}
	return &s.got[len(s.got)-1]
}

// unfiled reports whether an address is in code without a file.
func (s *stacks) unfiled(addr uint64) bool {
	m, ok := s.space.Find(addr)
	return ok && m.Exec && m.File == nil
}

// sameUnfiled reports whether ours ends since the next address is in code without a file,
// and theirs has that very address next.
func (a *agreement) sameUnfiled(s *stacks) bool {
	return s.end.Why == NoMap && s.n == len(s.got) && s.n < len(s.theirs) &&
		s.unfiled(s.end.Addr) && a.same(&Frame{PC: s.end.Addr}, s.theirs[s.n].pc)
}

// byCode reports whether ours goes on by code that no table describes.
func (a *agreement) byCode(s *stacks) bool {
	return s.n > 0 && s.got[s.n].How == Code && withoutTable(&s.got[s.n-1])
}

// fromBuiltin reports whether ours ends where code that no table describes was called by
// code without a file, and frame pointers, as all code of V8 has them, say the same: the
// return address is beside one that leads to another record.
func (a *agreement) fromBuiltin(s *stacks) bool {
	f := s.last()
	if s.n != len(s.got) || !s.unfiled(s.end.Addr) || !withoutTable(f) || f.SP == 0 {
		return false
	}
	const slots = 64 // of a frame of a builtin, at most
	for at := f.SP; at < f.SP+8*slots; at += 8 {
		if s.word(at+8) != s.end.Addr {
			continue
		}
		above := s.word(at)
		m, ok := s.space.Find(s.word(above + 8))
		return above > at && ok && m.Exec
	}
	return false
}

// word returns the word at an address of the stack, 0 if it was not copied.
func (s *stacks) word(addr uint64) uint64 {
	off := addr - s.stack.At
	if n := uint64(len(s.stack.Bytes)); n < 8 || off > n-8 {
		return 0
	}
	return binary.LittleEndian.Uint64(s.stack.Bytes[off:])
}

// withoutTable reports whether the code of a frame is in a file, and no table describes it.
func withoutTable(f *Frame) bool {
	if f == nil || f.File == nil || f.File.image == nil {
		return false
	}
	at := f.Offset
	if !f.Exact && at > 0 {
		at--
	}
	addr, ok := f.File.image.Address(at)
	if !ok {
		return false
	}
	rules, _ := f.File.find(addr)
	return rules == nil
}

// emptied reports whether a thread is in a function that has emptied its frame, and the
// table still has a register in the memory that it was in.
func emptied(f *Frame, register uint8) bool {
	if f.File == nil {
		return false
	}
	s := f.File.step(f.Offset, true)
	if s.kind != byRules || s.rules.Base != (table.Rule{Kind: table.IsRegister, Reg: AMD64SP, N: 8}) {
		return false
	}
	return slices.ContainsFunc(s.rules.Others, func(r table.Rule) bool { return r.Of == register && r.Kind == table.At && r.N < -8 })
}

// judgement is who is right where stacks differ, and why.
type judgement struct {
	with, kind string // "" is any
	files      string // a regular expression
	right, why string
}

// judgements are what an examination of the code has shown. What none fits is a fault.
var judgements = []judgement{
	{"", fmt.Sprintf(theyStray, Root), "", "ours", "nothing has called the last frame, and what is not in code is no caller"},
	{"gdb", fmt.Sprintf(theyStray, Switch), goProgram, "ours", "the rest is on another stack, and what is not in code is no caller"},
	// Go's own traceback goes through no function that writes the stack pointer, either (SPWRITE
	// in traceback.go). After runtime.morestack gdb has runtime.newproc.abi0, once, at a call of
	// runtime.newproc: what the start of the program has left on the stack.
	{"gdb", theyGoOnStale, goProgram, "ours", "the rest is on another stack, and gdb takes what an earlier call has left for the caller"},
	{"gdb", theyGoOnStart, goProgram, "both", "gdb has runtime.clone, too, the assembler code that made the thread; Go's own traceback ends at runtime.mstart as ours does"},
	{"perf", weGoOnGo, goProgram, "ours", "perf has no table for Go's code; gdb has the frames that ours has"},
	{"gdb", theyGoOnLeft, "", "gdb", "the function has its caller's registers back, and jumps; its code does not prove that, and memory below the stack pointer is not copied"},
	{"perf", weGoOnLeft, "", "ours", "the function has its caller's registers back; perf takes them from below the stack pointer, which is not copied"},
	{"", theyGuessUntabled, tableless, "ours", "the file has no table for this code, of an assembler, of musl or of V8, and theirs is a guess, right or not"},
	// musl: each call before a return address leads to the function of the frame below it, or
	// to one that jumps there. V8's builtins: perf, which takes frame pointers where it has no
	// table, has the same frames. x264: all frames after that one are by tables, up to the root.
	{"gdb", weGoOnByCode, tableless, "ours", followedCode + "; gdb has data for the caller"},
	{"perf", weGoOnCode, tableless, "ours", followedCode + ", which perf does not do"},
	{"perf", fmt.Sprintf(theyStray, Short), "", "ours", "both need more of the stack than was copied; perf adds the address -1"},
	// The last address that ours has, as the end, is the one that theirs has. In what a
	// compiler of the process has made there is no table that gdb or perf could read.
	{"", theyGuessUnfiled, "", "both", "the process has made the code that comes next; from there on theirs is a guess"},
	// A builtin that V8 has mapped a second time is called by code that V8 has made. gdb, which
	// has no symbols there, takes words of its frame for callers: data, or uv__hrtime, which
	// only reads a clock.
	{"gdb", theyGuessBuiltin, "^node$", "ours", "gdb takes words of the frame of V8's code, for which it has neither symbols nor a table, for callers"},
	// A thread that comes from the system call of clone is the old one, with a caller, or the
	// new one, with none: the instructions between are without a table (see inClone).
	{"gdb", theyGuessCloning, `^libc\.so\.6$`, "gdb", "in the old thread, where it goes on in code; in the new one it has data for the caller"},
}

const (
	goProgram    = "^program$"
	tableless    = `^(lib(x264|swscale|swresample|avcodec|avutil|avfilter)\.so.*|musl|node)$`
	followedCode = "the file has no table for this code, and it was followed to where it returns"
)

func (d *difference) judge(with string) *judgement {
	for i := range judgements {
		j := &judgements[i]
		if d.kind == j.kind && (j.with == "" || j.with == with) && regexp.MustCompile(j.files).MatchString(d.file) {
			return j
		}
	}
	return nil
}

// TestJudge: a frame that differs, and a stack of ours that ends early for no known
// reason, are faults.
func TestJudge(t *testing.T) {
	code := areas{{Mapping: Mapping{Start: 0x1000, End: 0x2000, Exec: true}, name: "code"}}
	stack := func(pcs ...uint64) (ours []Frame, theirs []theirFrame) {
		for _, pc := range pcs {
			ours, theirs = append(ours, Frame{PC: pc}), append(theirs, theirFrame{pc: pc})
		}
		return ours, theirs
	}
	for _, c := range []struct {
		ours, theirs []uint64
		end          End
		want         string
		fault        bool
	}{
		{[]uint64{0x1001, 0x1002}, []uint64{0x1001, 0x1002}, End{Why: Root}, "", false},
		{[]uint64{0x1001, 0x1002}, []uint64{0x1001, 0x1003}, End{Why: Root}, differ, true},
		{[]uint64{0x1001}, []uint64{0x1001, 0x1002}, End{Why: Root}, fmt.Sprintf(theyGoOn, Root), true},
		{[]uint64{0x1001}, []uint64{0x1001, 0x1002}, End{Why: Contradiction}, fmt.Sprintf(theyGoOn, Contradiction), true},
		{[]uint64{0x1001}, []uint64{0x1001, 0x1002}, End{Why: Short}, fmt.Sprintf(theyGoOn, Short), true},
		{[]uint64{0x1001, 0x1002}, []uint64{0x1001}, End{Why: Root}, weGoOn, true},
		{[]uint64{0x1001, 0x1002}, []uint64{0x1001, 0x5000}, End{Why: Root}, weGoOnAfter, true},
		{[]uint64{0x1001}, []uint64{0x1001, 0x5000}, End{Why: Root}, fmt.Sprintf(theyStray, Root), false},
		{[]uint64{0x1001}, []uint64{0x1001, 0x5000}, End{Why: Contradiction}, fmt.Sprintf(theyStray, Contradiction), true},
		{nil, []uint64{0x1001}, End{Why: NoMap}, fmt.Sprintf(theyGoOn, NoMap), true},
		{[]uint64{0x1001}, []uint64{0x1001, 0x1002, 0x5000}, End{Why: NoMap, Addr: 0x1002}, theyGuessUnfiled, false},
		{nil, []uint64{0x1001, 0x1002}, End{Why: NoMap, Addr: 0x1001}, theyGuessUnfiled, false},
		{[]uint64{0x1001}, []uint64{0x1001, 0x1003, 0x1002}, End{Why: NoMap, Addr: 0x1002}, fmt.Sprintf(theyGoOn, NoMap), true},
		{[]uint64{0x1001}, []uint64{0x1001, 0x5000}, End{Why: NoMap, Addr: 0x1002}, fmt.Sprintf(theyStray, NoMap), true},
		{[]uint64{0x1001, 0x1002}, []uint64{0x1001, 0x1003}, End{Why: NoMap, Addr: 0x1003}, differ, true},
		{[]uint64{0x1001}, []uint64{0x1001, 0x1002}, End{Why: NoInformation}, fmt.Sprintf(theyGoOn, NoInformation), true},
	} {
		a := newAgreement("gdb")
		ours, _ := stack(c.ours...)
		_, theirs := stack(c.theirs...)
		a.add(code, &Stack{}, ours, c.end, theirs, "")
		kind, fault := "", false
		for d := range a.diffs {
			kind, fault = d.kind, d.judge("gdb") == nil
		}
		if kind != c.want || fault != c.fault || a.equal != 1-len(a.diffs) {
			t.Errorf("%x and %x: %q, fault %v, want %q, %v", c.ours, c.theirs, kind, fault, c.want, c.fault)
		}
	}
}
