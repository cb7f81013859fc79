package phrase

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/stackset"
)

// TestSlept: a sleep has the name of the function that made the call, not of one by which
// the C library makes all calls.
func TestSlept(t *testing.T) {
	libc := &filemap.File{Path: "/lib/x86_64-linux-gnu/libc.so.6"}
	frame := func(name string) stackset.Frame {
		return stackset.Frame{File: libc, Offset: 0x10, Name: &symbol.Name{Function: name, File: "recv.c", Line: 3}}
	}
	stripped := stackset.Frame{File: libc, Offset: 0x10, Name: &symbol.Name{Reason: symbol.Stripped}}
	for _, test := range []struct {
		what   string
		frames []stackset.Frame
		want   string // "" for none
	}{
		{"a function", []stackset.Frame{frame("__libc_recv"), frame("main")}, "__libc_recv"},
		{"glibc 2.41", []stackset.Frame{frame("__syscall_cancel_arch"), frame("__internal_syscall_cancel"), frame("__libc_recv"), frame("main")}, "__libc_recv"},
		{"beyond a place", []stackset.Frame{frame("__syscall_cancel_arch"), frame("__internal_syscall_cancel"), frame("__syscall_cancel"), frame("main")}, "__syscall_cancel"},
		{"a call by number", []stackset.Frame{frame("syscall"), frame("io_wait")}, "io_wait"},
		{"nothing else", []stackset.Frame{frame("syscall")}, "syscall"},
		{"stripped", []stackset.Frame{stripped, frame("main")}, "libc.so.6+0x10"},
		{"control characters", []stackset.Frame{frame("a\x1b[2J")}, `a\033[2J`},
		{"no file", []stackset.Frame{{Address: 0x7000, Reason: filemap.NoAddressSpace}, frame("main")}, ""},
	} {
		f, got, ok := Slept(&stackset.Stack{Frames: test.frames})
		if got != test.want || ok != (test.want != "") || ok && f == nil {
			t.Errorf("%s: %q, %t, want %q", test.what, got, ok, test.want)
		}
	}
	if _, _, ok := Slept(nil); ok {
		t.Error("no stack has a name")
	}
}
