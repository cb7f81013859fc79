package binary

import (
	"encoding/binary"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/ring"
)

func usual() []format.Field {
	return []format.Field{
		{Type: "unsigned short", Name: "common_type", Offset: 0, Size: 2},
		{Type: "unsigned char", Name: "common_flags", Offset: 2, Size: 1},
		{Type: "unsigned char", Name: "common_preempt_count", Offset: 3, Size: 1},
		{Type: "int", Name: "common_pid", Offset: 4, Size: 4, Signed: true},
	}
}

// entry begins a record.
func entry(typ, flags, preempt, pid int) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(typ))
	b = append(b, byte(flags), byte(preempt))
	return binary.LittleEndian.AppendUint32(b, uint32(pid))
}

func words(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// printed is the text of one record.
func printed(k *Kernel, cpu int32, time uint64, rec []byte) string {
	k.Layout = ring.Layout{Page: *format.DefaultPage()}
	p := newPrinter(k)
	p.wantEvents = true
	var b tracefs.Batch
	p.Print(&b, cpu, time, rec)
	return string(b.Text)
}

// TestContext: the columns before a body, as trace_print_context has them.
func TestContext(t *testing.T) {
	comms := map[int32]string{7: "a b-7 c: [x]", 8: "", 9: "line\nfeed", 10: "fifteen-letters"}
	tgids := map[int32]int32{7: 3823}
	for _, x := range [...]struct {
		want                string
		k                   Kernel
		cpu                 int32
		time                uint64
		flags, preempt, pid int
	}{
		{"    a b-7 c: [x]-7       [000] .....  1173.590424: ", Kernel{}, 0, 1173590424272, 0, 0, 7},
		{"                -8       [001] d..1.     0.000000: ", Kernel{}, 1, 499, 0x01, 1, 8},
		{`       line\012feed-9       [012] DNh2.     0.000001: `, Kernel{}, 12, 500, 0xad, 2, 9},
		{" fifteen-letters-10      [123] bLsf3    59.999999: ", Kernel{}, 123, 59999999499, 0xb2, 0x3f, 10},
		{"          <idle>-0       [999] .BZ..    60.000000: ", Kernel{}, 999, 59999999500, 0x6e, 0, 0},
		{"           <...>-4194304 [4096] .lH.. 123456.000000: ", Kernel{}, 4096, 123456e9, 0x1a, 0, 4194304},
		{"           <XXX>--1      [000] .bz..     1.000000: ", Kernel{}, 0, 1e9, 0x46, 0, -1},
		{"           <...>-11      [000] .ps..     1.000000: ", Kernel{}, 0, 1e9, 0x30, 0, 11},
		{"           <...>-11      [000] .n...     1.000000: ", Kernel{}, 0, 1e9, 0x04, 0, 11},
		{"           <...>-11      [000] X....     1.000000: ", Kernel{Release: "6.12.3"}, 0, 1e9, 0x02, 0, 11},
		{"           <...>-11      [000] d....     1.000000: ", Kernel{Release: "5.10"}, 0, 1e9, 0x03, 0, 11},
		{"    a b-7 c: [x]-7       (   3823) [000] .....     1.000000: ", Kernel{Options: TraceOptions{TGID: true}}, 0, 1e9, 0, 0, 7},
		{"           <...>-11      (-------) [000]      1.000000: ", Kernel{Options: TraceOptions{TGID: true, NoIRQInfo: true}}, 0, 1e9, 0, 0, 11},
		{"           <...>-11      [000] ..... 1795863529.806296: ", Kernel{Clock: "realtime"}, 0, 1795863529806296226, 0, 0, 11},
		{"           <...>-11      [000] .....            2: ", Kernel{Clock: "counter"}, 0, 2, 0, 0, 11},
		{"           <...>-11      [000] ..... 3552795959520: ", Kernel{Clock: "x86-tsc"}, 0, 3552795959520, 0, 0, 11},
	} {
		x.k.Comms, x.k.TGIDs = comms, tgids
		got := printed(&x.k, x.cpu, x.time, entry(900, x.flags, x.preempt, x.pid))
		if want := x.want + "Unknown type 900\n"; got != want {
			t.Errorf("got\n%q, want\n%q", got, want)
		}
	}
}

const openatFmt = `"dfd: 0x%08lx, filename: 0x%08lx \"%s\", flags: %s%s, mode: 0%03o", ((unsigned long)(REC->dfd)), ((unsigned long)(REC->filename)),` +
	` __get_str(__filename_val), (REC->flags & ~3) && !(REC->flags & 3) ? "O_RDONLY|" : "", REC->flags ? __print_flags(REC->flags, "|", { 0x1, "O_WRONLY" },` +
	` { 0x2, "O_RDWR" }, { 0x40, "O_CREAT" }, { 0x80, "O_EXCL" }, { 0x200, "O_TRUNC" }, { 0x10000, "O_DIRECTORY" }, { 0x80000, "O_CLOEXEC" }) : "O_RDONLY", ((unsigned long)(REC->mode))`

// TestSyscalls: the kernel's own printer of system calls, before and after
// 6.18 and 6.19.
func TestSyscalls(t *testing.T) {
	number := func(name string, off int) format.Field {
		return format.Field{Type: "int", Name: name, Offset: off, Size: 8}
	}
	nr := format.Field{Type: "int", Name: "__syscall_nr", Offset: 8, Size: 4, Signed: true}
	user := format.Field{Type: "char", Name: "__filename_val", Offset: 48, Size: 4, Array: true, Loc: format.DataLoc}
	buf := format.Field{Type: "char", Name: "__buf_val", Offset: 40, Size: 4, Array: true, Loc: format.DataLoc}
	events := []*format.Event{
		{System: "syscalls", Name: "sys_enter_futex", ID: 1, Common: usual(), Fields: []format.Field{nr, number("op", 16), number("val", 24)}},
		{System: "syscalls", Name: "sys_exit_futex", ID: 2, Common: usual(), Fields: []format.Field{nr, number("ret", 16)}},
		{System: "syscalls", Name: "sys_enter_openat", ID: 3, Common: usual(), PrintFmt: openatFmt,
			Fields: []format.Field{nr, number("dfd", 16), number("filename", 24), number("flags", 32), number("mode", 40), user}},
		{System: "syscalls", Name: "sys_enter_write", ID: 4, Common: usual(), PrintFmt: `"%s", __print_dynamic_array(__buf_val, 1)`,
			Fields: []format.Field{nr, number("fd", 16), number("buf", 24), number("count", 32), buf}},
		{System: "syscalls", Name: "sys_enter_unlink", ID: 5, Common: usual(), PrintFmt: `"%s", __get_str(__pathname_val)`,
			Fields: []format.Field{nr, number("pathname", 16), {Type: "char", Name: "__pathname_val", Offset: 24, Size: 4, Array: true, Loc: format.DataLoc}}},
		{System: "syscalls", Name: "sys_enter_futex_wake", ID: 6, Common: usual(), Fields: []format.Field{nr, number("uaddr", 16), number("nr", 24), number("flags", 32)}},
		{System: "syscalls", Name: "sys_enter_dup", ID: 7, Common: usual(), // of an old kernel
			Fields: []format.Field{{Type: "int", Name: "nr", Offset: 8, Size: 4, Signed: true}, number("fildes", 16)}},
	}
	data := func(b []byte, off int, text string) []byte {
		b = binary.LittleEndian.AppendUint32(b, uint32(off+4|len(text)<<16))
		return append(b, text...)
	}
	call := func(id int, values ...uint64) []byte { return words(words(entry(id, 0, 0, 11), 202), values...) }
	const head = "           <...>-11      [000] .....     1.000000: "
	for _, x := range [...]struct {
		release string
		rec     []byte
		want    string
	}{
		{"6.18.44", call(1, 0x80, 9), "sys_futex(op: 0x80, val: 9)"},
		{"6.12.1", call(1, 0x80, 9), "sys_futex(op: 80, val: 9)"},
		{"", call(2, ^uint64(10)), "sys_futex -> 0xfffffffffffffff5"},
		{"7.3.4", data(call(3, 0xffffff9c, 4096, 0, 0), 48, "/etc/passwd\x00"), `sys_openat(dfd: 4294967196, filename: 4096 "/etc/passwd", flags: O_RDONLY)`},
		{"7.3.4", data(call(3, 3, 4096, 0x80241, 0o644), 48, "x\x00"), `sys_openat(dfd: 3, filename: 4096 "x", flags: O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, mode: 0644)`},
		{"7.3.4", data(call(3, 3, 4096, 0x80000, 0), 48, "x\x00"), `sys_openat(dfd: 3, filename: 4096 "x", flags: O_RDONLY|O_CLOEXEC)`},
		{"7.3.4", data(call(3, 3, 4096, 0x410002, 7), 48, "x\x00"), `sys_openat(dfd: 3, filename: 4096 "x", flags: O_TMPFILE|O_RDWR, mode: 0007)`},
		{"7.3.4", data(call(4, 1, 4096, 3), 40, "ab\n"), `sys_write(fd: 1, buf: 0x1000 (61:62:0a) "ab.", count: 3)`},
		{"7.3.4", data(call(4, 1, 4096, 9), 40, "ab"), `sys_write(fd: 1, buf: 0x1000 (61:62, ...) "ab"..., count: 9)`},
		{"7.3.4", data(call(4, 1, 4096, 1), 40, "\x00"), `sys_write(fd: 1, buf: 0x1000 (00), count: 1)`},
		{"7.3.4", data(call(5, 4096), 24, "/tmp/x\x00"), `sys_unlink(pathname: 0x1000 "/tmp/x")`},
		{"7.3.4", call(6, 4096, 7, 0x82), "sys_futex_wake(uaddr: 0x1000, nr: 7, flags: 0x82)"},
		{"4.4.1", call(7, 3), "sys_dup(fildes: 3)"},
		{"7.3.4", call(3, 3), `sys_openat(dfd: 3, filename: 0 "", flags: O_RDONLY)`},
	} {
		k := Kernel{Events: events, Release: x.release}
		if got := printed(&k, 0, 1e9, x.rec); got != head+x.want+"\n" {
			t.Errorf("%s: got\n%s, want\n%s%s\n", x.release, got, head, x.want)
		}
	}
}

// TestInternal: ftrace's own records. Their text is that of the kernel's
// printers, not of their print fmts.
func TestInternal(t *testing.T) {
	long := func(name string, off int) format.Field {
		return format.Field{Type: "unsigned long", Name: name, Offset: off, Size: 8}
	}
	rest := func(typ string, name string, off int) format.Field {
		return format.Field{Type: typ, Name: name, Offset: off, Array: true}
	}
	event := func(id int, name string, fields ...format.Field) *format.Event {
		return &format.Event{System: "ftrace", Name: name, ID: id, Common: usual(), Fields: fields}
	}
	events := []*format.Event{
		event(1, "function", long("ip", 8), long("parent_ip", 16)),
		event(4, "kernel_stack", format.Field{Type: "int", Name: "size", Offset: 8, Size: 4}, rest("unsigned long", "caller", 16)),
		event(5, "print", long("ip", 8), rest("char", "buf", 16)),
		event(6, "bprint", long("ip", 8), long("fmt", 16), rest("u32", "buf", 24)),
		event(17, "bputs", long("ip", 8), long("str", 16)),
		event(21, "raw_data", format.Field{Type: "unsigned int", Name: "id", Offset: 8, Size: 4}, rest("char", "buf", 12)),
		event(22, "hwlat", long("duration", 8)),
	}
	events = append(events,
		&format.Event{System: "kprobes", Name: "p", ID: 30, Common: usual(), Size: 24,
			Fields: []format.Field{long("__probe_ip", 8), long("arg1", 16)}, PrintFmt: `"(%lx) arg1=0x%Lx", REC->__probe_ip, REC->arg1`},
		&format.Event{System: "kprobes", Name: "r", ID: 31, Common: usual(), Size: 24,
			Fields: []format.Field{long("__probe_func", 8), long("__probe_ret_ip", 16)}, PrintFmt: `"(%lx <- %lx)", REC->__probe_func, REC->__probe_ret_ip`})
	const sym, par = 0xffffffff81000008, 0xffffffff81000018
	symbols := func() *Symbols {
		return NewSymbols(func() []byte {
			return []byte("ffffffff81000000 T tracing_mark_write\nffffffff81000010 T caller\nffffffff81000020 T _end\n")
		})
	}
	strings := map[uint64]string{0x1000: "x=%d %s\n", 0x2000: "constant\n", 0x3000: "bad %y\n"}
	rec := func(typ int, values ...uint64) []byte { return words(entry(typ, 0, 0, 11), values...) }
	const head = "           <...>-11      [000] .....     1.000000: "
	for _, x := range [...]struct {
		k    Kernel
		rec  []byte
		want string
	}{
		{Kernel{}, append(rec(5, sym), "hello\n\x00zz"...), "tracing_mark_write: hello\n"},
		{Kernel{Symbols: symbols()}, append(rec(5, par), "two\nlines\n\x00"...), "caller: two\\012lines\n"},
		{Kernel{Symbols: symbols(), Options: TraceOptions{SymOffset: true, SymAddr: true}}, append(rec(5, sym), "x\n\x00"...),
			"tracing_mark_write+0x8/0x10 <ffffffff81000008>: x\n"},
		{Kernel{Symbols: symbols(), Strings: strings}, append(rec(6, par, 0x1000), "\x07\x00\x00\x00yes\x00"...), "caller: x=7 yes\n"},
		{Kernel{Symbols: symbols(), Strings: strings}, rec(6, par, 0x9000), "caller: (0x9000)\n"},
		{Kernel{Symbols: symbols(), Strings: strings}, rec(6, par, 0x3000), "caller: bad %y\n"},
		{Kernel{Strings: strings}, rec(17, 0x10, 0x2000), "0x00000010: constant\n"},
		{Kernel{}, append(entry(21, 0, 0, 11), 0x1a, 0, 0, 0, 'a', 0xff, 0, 1), "# 1a buf: 61 ff 00 01\n"},
		{Kernel{Symbols: symbols()}, rec(1, sym, par), "tracing_mark_write <-caller\n"},
		{Kernel{Symbols: symbols(), Options: TraceOptions{NoParent: true}}, rec(1, sym, par), "tracing_mark_write\n"},
		{Kernel{Symbols: symbols()}, rec(4, 4, par, 1<<31-1, sym, ^uint64(0), par),
			"<stack trace>\n => caller\n => [FTRACE TRAMPOLINE]\n => tracing_mark_write\n"},
		{Kernel{}, rec(22, 5), "hwlat: duration=0x5 (5)\n"},
		{Kernel{Symbols: symbols()}, rec(30, par, 42), "p: (caller+0x8/0x10) arg1=0x2a\n"},
		{Kernel{Symbols: symbols()}, rec(30, 0x55d2508cd27e, 42), "p: (0x55d2508cd27e) arg1=0x2a\n"},
		{Kernel{Symbols: symbols()}, rec(31, sym, par), "r: (caller+0x8/0x10 <- tracing_mark_write)\n"},
	} {
		x.k.Events = events
		if got := printed(&x.k, 0, 1e9, x.rec); got != head+x.want {
			t.Errorf("got\n%q, want\n%q", got, head+x.want)
		}
	}
}
