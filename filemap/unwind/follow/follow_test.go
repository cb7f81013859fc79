package follow

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"ustack/filemap/unwind/table"
)

// text is code at base, of which functions are known to begin at some places.
type text struct {
	code   []byte
	begins []uint64
	tables map[uint64]*table.Rules
}

const base = 0x1008 // a call that ends at an aligned address is a doubt

func (c text) At(addr uint64) []byte {
	if addr < base || addr >= base+uint64(len(c.code)) {
		return nil
	}
	return c.code[addr-base : min(addr-base+15, uint64(len(c.code)))]
}
func (c text) Begins(addr uint64) bool            { return slices.Contains(c.begins, addr) }
func (c text) Complete() bool                     { return len(c.begins) > 0 }
func (c text) Described(addr uint64) *table.Rules { return c.tables[addr] }

// say returns an answer as one line.
func say(a *Answer) string {
	if a.Rules == nil {
		if a.Root {
			return "root"
		}
		return a.Why
	}
	out := ruleText(a.Rules.Base)
	if a.Rules.Base.Kind == table.IsExpression {
		out = fmt.Sprintf("expression %x", a.Rules.Expressions[a.Rules.Base.N])
	}
	for _, o := range a.Rules.Others {
		out += fmt.Sprintf(", %s %s", names[o.Of], ruleText(o))
	}
	if a.Also.Kind != table.Unsaid {
		out += "; " + ruleText(a.Also)
	}
	if a.Doubt {
		out += "?"
	}
	return out
}

var names = map[uint8]string{3: "rbx", 6: "rbp", 7: "rsp", 10: "r10", 12: "r12", 13: "r13", 14: "r14", 15: "r15"}

func ruleText(r table.Rule) string {
	switch r.Kind {
	case table.IsRegister:
		return fmt.Sprintf("=%s%+d", names[r.Reg], r.N)
	case table.AtRegister:
		return fmt.Sprintf("(%s%+d)", names[r.Reg], r.N)
	case table.At:
		return fmt.Sprintf("c%+d", r.N)
	case table.Is:
		return fmt.Sprintf("=c%+d", r.N)
	case table.Undefined:
		return "lost"
	}
	return "?"
}

func TestForward(t *testing.T) {
	for _, c := range []struct {
		what, code string
		after      bool
		want       string
	}{
		{"nothing but a return", "\xc3", false, "=rsp+8"},
		{"push and pop", "\x55\x53\x90\x5b\x5d\xc3", false, "=rsp+8"},
		{"in the middle", "\x90\x48\x83\xc4\x18\x5b\x5d\x41\x5c\xc3", false, "=rsp+56, rbx c-32, rbp c-24, r12 c-16"},
		{"leave", "\xc9\xc3", true, "=rbp+16, rbp c-16"},
		{"mov %rbp, %rsp; pop %rbp", "\x48\x89\xec\x5d\xc3", true, "=rbp+16, rbp c-16"},
		{"lea -8(%rbp), %rsp; pop %rbx; pop %rbp", "\x48\x8d\x65\xf8\x5b\x5d\xc3", true, "=rbp+16, rbx c-24, rbp c-16"},
		{"two ways to one return", "\x74\x01\x90\x48\x83\xc4\x08\xc3", false, "=rsp+16"},
		{"two returns that agree", "\x74\x05\x48\x83\xc4\x08\xc3\x5a\xc3", false, "=rsp+16"},
		{"two returns that disagree", "\x74\x05\x48\x83\xc4\x08\xc3\xc3", false, disagreement},
		{"two returns by two registers", "\x74\x02\xc9\xc3\x48\x83\xc4\x08\xc3", false, "=rbp+16, rbp c-16; =rsp+16"},
		{"a jump to a register", "\xff\xe0", false, notKnown},
		{"one way is not known", "\x74\x02\xff\xe0\xc3", false, "=rsp+8"},
		{"an endless loop", "\xeb\xfe", false, neverReturns},
		{"hlt", "\xf4", false, neverReturns},
		{"exit", "\xb8\x3c\x00\x00\x00\x0f\x05", false, "root"},
		{"exit_group by a byte", "\x31\xc0\xb0\xe7\x0f\x05", false, "root"},
		{"another system call", "\xb8\x3d\x00\x00\x00\x0f\x05\xc3", false, "=rsp+8"},
		{"exit on one way", "\x74\x01\xc3\xb8\x3c\x00\x00\x00\x0f\x05", false, "=rsp+8"},
		{"a register that is saved later", "\x48\x89\x5c\x24\xf8\x31\xdb\x48\x8b\x5c\x24\xf8\xc3", false, "=rsp+8"},
		{"a saved register is loaded from the other pointer", "\x53\x48\x8b\x5d\xf8\xc9\xc3", false, "=rbp+16, rbx lost, rbp c-16"},
		{"a register that is not kept after a call", "\x4c\x89\xd4\xc3", true, notKnown},
		{"the stack pointer in another register", "\x4c\x89\xd4\xc3", false, notKnown},
		{"the stack pointer from the stack", "\x48\x8b\x64\x24\x40\x5b\xc3", false, "expression 77c000061110" + "22, rbx c-16"},
		{"arguments are taken", "\xc9\xc2\x18\x00", true, "=rbp+16, rbp c-16, rsp =c+24"},
		{"the return address is moved", "\xc9\x59\x48\x01\xdc\x51\xc3", true, "=rbp+16, rbp c-16, rsp lost"},
		{"the return address is moved by a number", "\x59\x48\x83\xc4\x18\x51\xc3", true, "=rsp+8, rsp =c+24"},
		{"a stack pointer that is lost", "\x48\x01\xc4\xc3", false, notKnown},
		{"a return address that the code makes", "\x50\xc3", false, notKnown},
		{"a call that changes what is not kept", "\xe8\x00\x01\x00\x00\x4c\x89\xd4\xc3", false, notKnown},
		{"a call and a return", "\xff\xd0\xff\xd0\xc3", false, "=rsp+8"},
		{"a call and padding to another function", "\x74\x06\xff\xd0\x0f\x1f\x40\x00\xc3", false, "=rsp+8"},
		{"what cannot be decoded", "\x06", false, neverReturns},
		{"the end of the code", "\x90", false, neverReturns},
		{"a call that ends at an aligned address", "\x90\x90\x90\x90\x90\x90\xff\xd0\x58\xc3", false, "=rsp+16?"},
		{"after such a call", "\xe8", false, neverReturns},
	} {
		a, spent := Forward(text{code: []byte(c.code)}, base, c.after, MaxInstructions)
		if got := say(&a); got != c.want || spent > len(c.code)+1 {
			t.Errorf("%s: %s, want %s (%d instructions)", c.what, got, c.want, spent)
		}
	}
}

// TestFunctions: known functions end paths, tables are followed, and the way from the
// beginning helps.
func TestFunctions(t *testing.T) {
	abort := "\x53\xff\xd0" // push %rbx; call *%rax, which never returns
	for _, c := range []struct {
		what string
		text
		pc    uint64
		after bool
		want  string
	}{
		{"after a call that never returns", text{code: []byte(abort + "\x55\xc3"), begins: []uint64{base, base + 3}}, base + 3, true, "=rsp+16, rbx c-16"},
		{"no function is known", text{code: []byte(abort + "\x55\x5d\xc3")}, base + 3, true, "=rsp+8"},
		{"both ways", text{code: []byte("\x53\xff\xd0\x5b\xc3"), begins: []uint64{base}}, base + 3, true, "=rsp+16, rbx c-16"},
		{"they disagree", text{code: []byte("\x53\xff\xd0\x58\x5b\xc3"), begins: []uint64{base}}, base + 3, true, disagreement},
		{"by two registers", text{code: []byte("\x55\x48\x89\xe5\xff\xd0\xc9\xc3"), begins: []uint64{base}}, base + 6, true, "=rbp+16, rbp c-16"},
		{"a thread begins", text{code: []byte("\x31\xed\xff\xd0\xb0\x00\xb8\x3c\x00\x00\x00\x0f\x05"), begins: []uint64{base}}, base + 4, true, "root"},
		{"it only ends", text{code: []byte("\xff\xd0\xb8\x3c\x00\x00\x00\x0f\x05"), begins: []uint64{base}}, base + 2, true, "=rsp+8"},
		{"a jump to a function with a table", text{code: []byte("\x5b\xeb\x00\xc2"), tables: map[uint64]*table.Rules{base + 3: atEntry(8)}}, base, false, "=rsp+16, rbx c-16"},
		{"a part of a function with a table", text{code: []byte("\xeb\x00\xc2"), tables: map[uint64]*table.Rules{base + 2: atEntry(32, table.Rule{Kind: table.At, Of: 3, N: -16})}}, base, false, "=rsp+32, rbx c-16"},
		{"it has no caller", text{code: []byte("\xeb\x00\xc2"), tables: map[uint64]*table.Rules{base + 2: {Return: table.Rule{Kind: table.Undefined}}}}, base, false, neverReturns},
		{"two threads", text{code: []byte("\x0f\x05\x74\x01\xc3\xb8\x3c\x00\x00\x00\x0f\x05")}, base + 2, false, twoThreads},
	} {
		s := Starts{addrs: c.begins, all: true}
		a, _ := Caller(c.text, &s, c.pc, c.after, MaxInstructions)
		if got := say(&a); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// atEntry are the rules of a table whose frame ends n above the stack pointer.
func atEntry(n int64, others ...table.Rule) *table.Rules {
	return &table.Rules{Base: table.Rule{Kind: table.IsRegister, Reg: 7, N: n}, Return: table.Rule{Kind: table.At, Of: 16, N: -8}, Others: others}
}

// TestBounds: however code branches, no more is followed than is allowed.
func TestBounds(t *testing.T) {
	branches := bytes.Repeat([]byte("\x0f\x84\x00\x10\x00\x00"), 4000) // each to another place
	calls := bytes.Repeat([]byte("\x50"), 1<<16)
	for _, code := range [][]byte{branches, calls, slices.Concat(branches, calls)} {
		for _, most := range []int{0, 1, 100, 1 << 30} {
			c := text{code: code}
			s := Starts{addrs: []uint64{base}}
			a, spent := Caller(c, &s, base+30, false, most)
			if spent > 2*min(most, MaxInstructions) || a.Rules != nil && most == 0 {
				t.Errorf("%d instructions of %d: %+v", spent, most, a)
			}
		}
	}
	w := walk{code: text{code: branches}, left: MaxInstructions, returned: func(*state, uint64, int64) {}}
	w.run(point{addr: base, state: begin(false)})
	if w.open == 0 || cap(w.pending) > 2*maxPending {
		t.Errorf("%d branches pending at once, %d not followed", cap(w.pending), w.open)
	}
}

// FuzzCaller: whatever the code is, rules are of registers that there are, and bounded.
func FuzzCaller(f *testing.F) {
	for _, code := range []string{"\x55\x48\x89\xe5\x53\xff\xd0\x5b\x5d\xc3", "\x48\x8b\x64\x24\x40\x5b\xc3", "\xc9\x59\x48\x01\xdc\x51\xc2\x10\x00",
		"\x74\x02\xc9\xc3\x48\x83\xc4\x08\xc3", "\x31\xed\xff\xd0\xb8\x3c\x00\x00\x00\x0f\x05", "\x4c\x8d\x54\x24\x08\x48\x83\xe4\xf0\x41\xff\x72\xf8\x55\x48\x89\xe5\x41\x52\xff\xd0\x41\x5a\x5d\x49\x8d\x62\xf8\xc3"} {
		f.Add([]byte(code), uint16(0), uint16(5), true)
		f.Add([]byte(code), uint16(0), uint16(3), false)
	}
	f.Fuzz(func(t *testing.T, code []byte, start, pc uint16, after bool) {
		const most = 512
		c := text{code: code, begins: []uint64{base + uint64(start)}}
		s := Starts{addrs: c.begins}
		a, spent := Caller(c, &s, base+uint64(pc), after, most)
		if spent > 2*most || a.Root && a.Rules != nil || a.Rules == nil && !a.Root && a.Why == "" {
			t.Fatalf("%d instructions, %+v", spent, a)
		}
		if a.Rules == nil {
			return
		}
		if b := a.Rules.Base; b.Kind == table.IsRegister && b.Reg > 15 || b.Kind == table.IsExpression && int(b.N) >= len(a.Rules.Expressions) {
			t.Fatalf("%+v", a.Rules)
		}
		if !slices.IsSortedFunc(a.Rules.Others, func(x, y table.Rule) int { return int(x.Of) - int(y.Of) }) {
			t.Fatalf("not in order: %+v", a.Rules.Others)
		}
	})
}
