package callsite

import "testing"

// TestDecode: what instructions do to registers and the stack.
func TestDecode(t *testing.T) {
	const at, sp, bp = 0x1000, rsp, rbp
	type want struct {
		op       Op
		to, from uint8
		n        int64
		writes   uint16
	}
	for _, c := range []struct {
		what, code string
		want
	}{
		{"push %rbp", "\x55", want{Push, None, bp, 0, 0}},
		{"push %r12", "\x41\x54", want{Push, None, 12, 0, 0}},
		{"push $-1", "\x6a\xff", want{Push, None, None, -1, 0}},
		{"push $0x1000", "\x68\x00\x10\x00\x00", want{Push, None, None, 0x1000, 0}},
		{"push 8(%rdi)", "\xff\x77\x08", want{Push, sp, None, 0, 0}},
		{"push %rax, long", "\xff\xf0", want{Push, None, rax, 0, 0}},
		{"pop %r15", "\x41\x5f", want{Pop, 15, None, 0, 0}},
		{"pop (%rdi)", "\x8f\x07", want{Pop, None, None, 0, 0}},
		{"sub $0x18, %rsp", "\x48\x83\xec\x18", want{Add, sp, sp, -0x18, 0}},
		{"add $0x1000, %rsp", "\x48\x81\xc4\x00\x10\x00\x00", want{Add, sp, sp, 0x1000, 0}},
		{"add $8, %esp", "\x83\xc4\x08", want{Other, None, None, 0, 1 << sp}},
		{"and $-16, %rsp", "\x48\x83\xe4\xf0", want{Other, None, None, 0, 1 << sp}},
		{"lea -0x20(%rbp), %rsp", "\x48\x8d\x65\xe0", want{Add, sp, bp, -0x20, 0}},
		{"lea (%rsp,%rax), %rsp", "\x48\x8d\x24\x04", want{Other, None, None, 0, 1 << sp}},
		{"mov %rsp, %rbp", "\x48\x89\xe5", want{Add, bp, sp, 0, 0}},
		{"mov %rbp, %rsp, the other way", "\x48\x8b\xe5", want{Add, sp, bp, 0, 0}},
		{"mov %esp, %ebp", "\x89\xe5", want{Other, None, None, 0, callerSaved | 1<<sp | 1<<bp}},
		{"mov 0x18(%rsp), %rbx", "\x48\x8b\x5c\x24\x18", want{Load, rbx, sp, 0x18, 0}},
		{"mov 0x18(%rsp), %ebx", "\x8b\x5c\x24\x18", want{Other, None, None, 0, 1 << rbx}},
		{"mov %fs:0x28, %rbx", "\x64\x48\x8b\x1c\x25\x28\x00\x00\x00", want{Other, None, None, 0, callerSaved | 1<<rbx}},
		{"mov %r13, -8(%rbp)", "\x4c\x89\x6d\xf8", want{Store, bp, 13, -8, 0}},
		{"mov %r13d, -8(%rbp)", "\x44\x89\x6d\xf8", want{Other, None, None, 0, 0}},
		{"movq $1, 8(%rsp)", "\x48\xc7\x44\x24\x08\x01\x00\x00\x00", want{Other, None, None, 0, 0}},
		{"movq $0x3c, %rax", "\x48\xc7\xc0\x3c\x00\x00\x00", want{Number, rax, None, 0x3c, 0}},
		{"mov $0x3c, %eax", "\xb8\x3c\x00\x00\x00", want{Number, rax, None, 0x3c, 0}},
		{"mov $0x3c, %al", "\xb0\x3c", want{LowByte, rax, None, 0x3c, 0}},
		{"mov $1, %ah", "\xb4\x01", want{Other, None, None, 0, callerSaved | 1<<sp}},
		{"xor %ebp, %ebp", "\x31\xed", want{Number, bp, None, 0, 0}},
		{"xor %eax, %ebp", "\x31\xc5", want{Other, None, None, 0, 1 << bp}},
		{"cmp %rbp, %rsp", "\x48\x39\xec", want{}},
		{"test %rbp, %rbp", "\x48\x85\xed", want{}},
		{"xchg %rsp, %rax", "\x48\x94", want{Exchange, rax, sp, 0, 0}},
		{"xchg %rsp, %rbp", "\x48\x87\xe5", want{Exchange, bp, sp, 0, 0}},
		{"leave", "\xc9", want{Leave, None, None, 0, 0}},
		{"ret", "\xc3", want{Return, None, None, 0, 0}},
		{"rep ret", "\xf3\xc3", want{Return, None, None, 0, 0}},
		{"ret $16", "\xc2\x10\x00", want{Return, None, None, 16, 0}},
		{"enter", "\xc8\x10\x00\x00", want{Other, None, None, 0, callerSaved | 1<<sp | 1<<bp | 1<<rbx | 0xf<<12}},
		{"pushf", "\x9c", want{Other, None, None, 0, callerSaved | 1<<sp | 1<<bp | 1<<rbx | 0xf<<12}},
		{"syscall", "\x0f\x05", want{System, None, None, 0, 1<<rcx | 1<<r11 | 1<<rax}},
		{"hlt", "\xf4", want{Halt, None, None, 0, 0}},
		{"ud2", "\x0f\x0b", want{Halt, None, None, 0, 0}},
		{"nopw 0(%rax,%rax)", "\x66\x0f\x1f\x44\x00\x00", want{Nothing, None, None, 0, 0}},
		{"endbr64", "\xf3\x0f\x1e\xfa", want{Other, None, None, 0, 0}},
		{"shl $3, %rax", "\x48\xc1\xe0\x03", want{Other, None, None, 0, callerSaved}},
		{"pshufb %xmm4, %xmm5", "\x66\x0f\x38\x00\xec", want{}},
		{"movq %xmm4, %rbp", "\x66\x48\x0f\x7e\xe5", want{Other, None, None, 0, callerSaved | 1<<bp | 1<<sp}},
		{"vpaddd %ymm4, %ymm5, %ymm4", "\xc5\xd5\xfe\xe4", want{Other, None, None, 0, callerSaved}},
		{"bswap %rbp", "\x48\x0f\xcd", want{Other, None, None, 0, 1 << bp}},
	} {
		if c.want == (want{}) {
			c.to, c.from = None, None
		}
		e, ok := Decode([]byte(c.code), at)
		got := want{e.Op, e.To, e.From, e.N, e.Writes}
		if !ok || got != c.want || e.Len != len(c.code) {
			t.Errorf("%s: %v, %+v of %d bytes, want %+v", c.what, ok, got, e.Len, c.want)
		}
	}
	for code, conditional := range map[string]bool{"\x74\x00": true, "\x0f\x84\x00\x00\x00\x00": true, "\xeb\x00": false, "\xe9\x00\x00\x00\x00": false, "\xe3\x00": true} {
		if e, ok := Decode([]byte(code), at); !ok || e.Kind != Jump || e.Conditional != conditional {
			t.Errorf("% x: %+v", code, e)
		}
	}
	if _, ok := Decode([]byte{0x06}, at); ok {
		t.Error("what is no instruction has an effect")
	}
}
