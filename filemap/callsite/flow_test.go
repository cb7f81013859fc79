package callsite

import (
	"bufio"
	"bytes"
	"debug/elf"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

func TestFlow(t *testing.T) {
	const at = 0x1000
	for _, c := range []struct {
		what string
		m    elf.Machine
		code string
		want []Step
	}{
		{"call", elf.EM_X86_64, "\x55\xe8\x0a\x00\x00\x00\xc3", []Step{{0x1001, 5, Call, 0x1010, false}}},
		{"call with prefixes of TLS", elf.EM_X86_64, "\x66\x66\x48\xe8\x08\x00\x00\x00", []Step{{0x1000, 8, Call, 0x1010, false}}},
		{"call as a displacement", elf.EM_X86_64, "\xff\x94\xe8\x01\x02\x03\x04", []Step{{0x1000, 7, CallIndirect, 0, false}}},
		{"call by a pointer", elf.EM_X86_64, "\xff\x15\x0a\x00\x00\x00", []Step{{0x1000, 6, CallIndirect, 0x1010, true}}},
		{"call by a register", elf.EM_X86_64, "\x41\xff\xd4", []Step{{0x1000, 3, CallIndirect, 0, false}}},
		{"jumps", elf.EM_X86_64, "\x75\xfe\xe9\xf9\xff\xff\xff\x0f\x84\x03\x00\x00\x00", []Step{{0x1000, 2, Jump, 0x1000, false}, {0x1002, 5, Jump, 0x1000, false}, {0x1007, 6, Jump, 0x1010, false}}},
		{"jump table", elf.EM_X86_64, "\x3e\xff\xe0", []Step{{0x1000, 3, JumpIndirect, 0, false}}},
		{"jump by a pointer", elf.EM_X86_64, "\xff\x25\x0a\x00\x00\x00", []Step{{0x1000, 6, JumpIndirect, 0x1010, true}}},
		{"push of memory", elf.EM_X86_64, "\xff\x35\x0a\x00\x00\x00", nil},
		{"64 bits immediate", elf.EM_X86_64, "\x48\xb8\xe8\xe8\xe8\xe8\xe8\xe8\xe8\xe8", nil},
		{"test with immediate", elf.EM_X86_64, "\xf6\x05\xe8\xe8\xe8\xe8\xe8\x66\xf7\xc0\xe8\xe8", nil},
		{"bl", elf.EM_AARCH64, "\x04\x00\x00\x94", []Step{{0x1000, 4, Call, 0x1010, false}}},
		{"bl back", elf.EM_AARCH64, "\xff\xff\xff\x97", []Step{{0x1000, 4, Call, 0xffc, false}}},
		{"b", elf.EM_AARCH64, "\x04\x00\x00\x14", []Step{{0x1000, 4, Jump, 0x1010, false}}},
		{"b.ne", elf.EM_AARCH64, "\x81\x00\x00\x54", []Step{{0x1000, 4, Jump, 0x1010, false}}},
		{"cbz back", elf.EM_AARCH64, "\xe0\xff\xff\xb4", []Step{{0x1000, 4, Jump, 0xffc, false}}},
		{"tbnz", elf.EM_AARCH64, "\x80\x00\x00\x37", []Step{{0x1000, 4, Jump, 0x1010, false}}},
		{"blr, br", elf.EM_AARCH64, "\x00\x01\x3f\xd6\x20\x02\x1f\xd6", []Step{{0x1000, 4, CallIndirect, 0, false}, {0x1004, 4, JumpIndirect, 0, false}}},
		{"ret", elf.EM_AARCH64, "\xc0\x03\x5f\xd6", nil},
	} {
		var got []Step
		if !Flow(c.m, []byte(c.code), at, func(s Step) { got = append(got, s) }) {
			t.Errorf("%s: not decoded", c.what)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
	for _, bad := range []string{"\x06", "\xe8\x00", "\x0f", "\x48", "\xff", "\xf7\xc0\x00", "\x62\xf1", "\x66\xe8\x00\x00\x00\x00"} {
		if Flow(elf.EM_X86_64, []byte(bad), at, func(Step) {}) {
			t.Errorf("% x: decoded", bad)
		}
	}
	if Flow(elf.EM_386, nil, at, nil) {
		t.Error("an unknown machine")
	}
}

func TestStub(t *testing.T) {
	const at = 0x1000
	for _, c := range []struct {
		what string
		m    elf.Machine
		code string
		want uint64
	}{
		{".plt", elf.EM_X86_64, "\xff\x25\x0a\x10\x00\x00\x68\x00\x00\x00\x00\xe9\xe0\xff\xff\xff", 0x2010},
		{".plt.sec", elf.EM_X86_64, "\xf3\x0f\x1e\xfa\xf2\xff\x25\x05\x10\x00\x00\x0f\x1f\x44\x00\x00", 0x2010},
		{"no stub", elf.EM_X86_64, "\x55\x48\x89\xe5\x5d\xc3", 0},
		// adrp x16, 0x11000; ldr x17, [x16, #24]; add x16, x16, #24; br x17
		{"arm64", elf.EM_AARCH64, "\x90\x00\x00\x90\x11\x0e\x40\xf9\x10\x62\x00\x91\x20\x02\x1f\xd6", 0x11018},
		{"arm64 with bti", elf.EM_AARCH64, "\x5f\x24\x03\xd5\x90\x00\x00\x90\x11\x0e\x40\xf9\x20\x02\x1f\xd6", 0x11018},
		{"no stub of arm64", elf.EM_AARCH64, "\xfd\x7b\xbf\xa9\xfd\x03\x00\x91\xc0\x03\x5f\xd6", 0},
	} {
		if got, ok := Stub(c.m, []byte(c.code), at); got != c.want || ok != (c.want != 0) {
			t.Errorf("%s: %#x, %v, want %#x", c.what, got, ok, c.want)
		}
	}
}

// TestFlowTruth: calls and jumps of a large program are the same as objdump's.
func TestFlowTruth(t *testing.T) {
	capturetest.SkipShort(t)
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip(err)
	}
	name := library(t)
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := f.Section(".text")
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	truth, err := exec.Command(objdump, "-d", "-w", "-j", ".text", "--no-show-raw-insn", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[uint64]string)
	var starts []uint64
	for sc := bufio.NewScanner(bytes.NewReader(truth)); sc.Scan(); {
		head, rest, ok := strings.Cut(sc.Text(), ":\t")
		addr, err := strconv.ParseUint(strings.TrimSpace(head), 16, 64)
		if !ok || err != nil {
			continue
		}
		starts = append(starts, addr)
		want[addr] = rest
	}
	starts = append(starts, text.Addr+text.Size)
	steps, wrong := 0, 0
	for i, addr := range starts[:len(starts)-1] {
		one := code[addr-text.Addr:]
		s, n, ok := decodeX86(one, addr)
		if f.Machine == elf.EM_AARCH64 {
			s, n, ok = decodeARM64(one, addr)
		}
		next := starts[i+1]
		if strings.Contains(want[addr], "(bad)") {
			continue
		}
		if !ok || addr+uint64(n) != next || !same(s, want[addr]) {
			if wrong++; wrong < 20 {
				t.Errorf("%#x: %q (% x): %+v, %d bytes, %v", addr, want[addr], one[:min(len(one), 15)], s, n, ok)
			}
		}
		if s.Kind != Straight {
			steps++
		}
	}
	t.Logf("%s: %d instructions, %d calls and jumps, %d wrong", name, len(starts)-1, steps, wrong)
	if steps == 0 {
		t.Error("nothing was decoded")
	}
}

// library is a C library of this machine.
func library(t *testing.T) string {
	for _, pattern := range []string{"/usr/lib/*/libc.so.6", "/usr/lib64/libc.so.6", "/lib/*/libc.so.6"} {
		if names, err := filepath.Glob(pattern); err == nil && len(names) > 0 {
			return names[0]
		}
	}
	t.Skip("no libc.so.6 here")
	return ""
}

// same compares a step with an instruction of objdump's, "call   1234 <name>".
func same(s Step, text string) bool {
	for _, word := range []string{"bnd ", "notrack ", "data16 ", "rex.W ", "cs ", "ds ", "lock ", "rep ", "repz ", "repnz "} {
		text = strings.ReplaceAll(text, word, "")
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return s.Kind == Straight
	}
	op := words[0]
	call := strings.HasPrefix(op, "call") || op == "bl" || strings.HasPrefix(op, "blr")
	jump := op[0] == 'j' || strings.HasPrefix(op, "loop") || op == "xbegin" || op == "b" || strings.HasPrefix(op, "b.") ||
		strings.HasPrefix(op, "br") || strings.HasPrefix(op, "cb") || strings.HasPrefix(op, "tb")
	switch {
	case op == "xbegin":
		return true
	case !call && !jump:
		return s.Kind == Straight
	case len(words) > 1 && words[1][0] == '*' || op == "br" || op == "blr":
		return call && s.Kind == CallIndirect || jump && s.Kind == JumpIndirect
	}
	at := 1
	if op[0] == 'c' && op[1] == 'b' {
		at = 2
	}
	if strings.HasPrefix(op, "tb") {
		at = 3
	}
	target, err := strconv.ParseUint(words[min(at, len(words)-1)], 16, 64)
	return err == nil && target == s.Target && (call && s.Kind == Call || jump && s.Kind == Jump)
}

func FuzzFlow(f *testing.F) {
	f.Add([]byte("\x55\xe8\x0a\x00\x00\x00\xc3"), false)
	f.Add([]byte("\x62\xf1\x7c\x48\x58\x80\x01\x02\x03\x04"), false)
	f.Add([]byte("\x04\x00\x00\x94"), true)
	f.Fuzz(func(t *testing.T, code []byte, arm bool) {
		m := elf.EM_X86_64
		if arm {
			m = elf.EM_AARCH64
		}
		end := uint64(0x1000)
		Flow(m, code, 0x1000, func(s Step) {
			if s.Addr < end || s.Len <= 0 || s.End() > 0x1000+uint64(len(code)) {
				t.Errorf("% x: %+v after %#x", code, s, end)
			}
			end = s.End()
		})
		Stub(m, code, 0x1000)
	})
}
