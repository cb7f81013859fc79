package phrase

import (
	"testing"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/stackset"
)

// TestCallers: a line begins with the program's function, not with what the libraries make
// of a lock, unless there is nothing else.
func TestCallers(t *testing.T) {
	program, library, libc := &filemap.File{Path: "/opt/shopd"}, &filemap.File{Path: "/lib/libstdc++.so.6"}, &filemap.File{Path: "/lib/x86_64-linux-gnu/libc.so.6"}
	frame := func(f *filemap.File, names ...string) stackset.Frame {
		out := stackset.Frame{Offset: 0x10}
		out.File = f
		if len(names) == 0 {
			return out
		}
		n := &symbol.Name{Function: names[len(names)-1], File: "shopd.cc", Line: 7}
		for _, name := range names[:len(names)-1] {
			n.Inlined = append(n.Inlined, symbol.Call{Function: name})
		}
		out.Name = n
		return out
	}
	lock := frame(libc, "pthread_mutex_lock")
	for _, test := range []struct {
		name   string
		frames []stackset.Frame
		want   string
	}{
		{"inlined", []stackset.Frame{lock, frame(program, "__gthread_mutex_lock", "std::mutex::lock()", "Cache::lookup(int)")}, "Cache::lookup(int) shopd.cc:7"},
		{"a call", []stackset.Frame{lock, frame(program, "std::mutex::lock()"), frame(program, "Cache::lookup(int)")}, "Cache::lookup(int) shopd.cc:7"},
		{"in a library", []stackset.Frame{lock, frame(library, "std::condition_variable::wait"), frame(program, "Queue::pop")}, "Queue::pop shopd.cc:7"},
		{"ours inlined, too", []stackset.Frame{frame(program, "std::mutex::lock()", "Cache::lock()", "main")}, "Cache::lock() < main shopd.cc:7"},
		{"in between, too", []stackset.Frame{frame(program, "add"), frame(program, "<alloc::boxed::Box<dyn core::ops::FnOnce<()>> as core::ops::FnOnce<()>>::call_once"), frame(program, "main")}, "add shopd.cc:7 < main shopd.cc:7"},
		{"Rust", []stackset.Frame{lock, frame(program, "<std::sys::sync::mutex::futex::Mutex>::lock_contended"), frame(program, "<shop::Cache>::lookup")}, "<shop::Cache>::lookup shopd.cc:7"},
		{"a closure of ours", []stackset.Frame{lock, frame(program, "<shop::main::{closure#0} as core::ops::FnOnce<()>>::call_once")}, "<shop::main::{closure#0} as core::ops::FnOnce<()>>::call_once shopd.cc:7"},
		{"Java", []stackset.Frame{lock, frame(library, "os::PlatformEvent::park()"), frame(library, "ObjectMonitor::enter(JavaThread*)"), frame(nil, "monitorenter_nofpu Runtime1 stub"), frame(nil, "Fight.inMonitor")}, "Fight.inMonitor shopd.cc:7"},
		{"Java without names", []stackset.Frame{lock, frame(library, "ObjectMonitor::enter(JavaThread*)"), {Address: 0x7010, Reason: filemap.Anonymous}}, "ObjectMonitor::enter(JavaThread*) shopd.cc:7 < 0x7010 (anonymous)"},
		{"Abseil", []stackset.Frame{lock, frame(program, "AbslInternalPerThreadSemWait_lts_20240722"), frame(program, "absl::lts_20240722::Mutex::Lock()"), frame(program, "core::Cache::lookup()")}, "core::Cache::lookup() shopd.cc:7"},
		{"three", []stackset.Frame{lock, frame(program, "std::mutex::lock()"), frame(program, "a"), frame(program, "b"), frame(program, "c"), frame(program, "d")}, "a shopd.cc:7 < b shopd.cc:7 < c shopd.cc:7"},
		{"nothing else", []stackset.Frame{lock, frame(program, "std::mutex::lock()")}, "std::mutex::lock() shopd.cc:7"},
		{"the C library only", []stackset.Frame{lock}, "pthread_mutex_lock shopd.cc:7"},
		{"no name", []stackset.Frame{lock, frame(program), frame(program, "main")}, "shopd+0x10 < main shopd.cc:7"},
		{"parameters", []stackset.Frame{frame(program, "Cache::wait(int)", "Cache::lookup(std::function<void (int)> const&, int) const"), frame(program, "main")}, "Cache::wait(int) < Cache::lookup(…) const shopd.cc:7 < main shopd.cc:7"},
		{"none", nil, ""},
	} {
		s := &stackset.Stack{Frames: test.frames}
		if got := Callers(s); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if got, want := Leaves(s), test.name != "the C library only" && test.name != "none"; got != want {
			t.Errorf("%s: leaves the C library: %t", test.name, got)
		}
	}
}

// TestCallersKeeps: the names of a stack, which other outputs share, stay as they are.
func TestCallersKeeps(t *testing.T) {
	f := stackset.Frame{Name: &symbol.Name{Function: "f", Inlined: []symbol.Call{{Function: "std::lock"}}}}
	s := &stackset.Stack{Frames: []stackset.Frame{f}}
	if got := Callers(s); got != "f+0x0" || len(s.Frames[0].Name.Inlined) != 1 {
		t.Errorf("%q, then %q", got, Frames(s))
	}
}

// TestPlainName: only a list of parameters at the end is left out, if it is long.
func TestPlainName(t *testing.T) {
	for name, want := range map[string]string{
		"":                                "",
		")":                               ")",
		"(((((((((((((((((((((((((":       "(((((((((((((((((((((((((",
		"f)))))))))))))))))))))))))":      "f)))))))))))))))))))))))))",
		"(anonymous namespace of a file)": "(anonymous namespace of a file)",
		"pthread_mutex_lock":              "pthread_mutex_lock",
		"f()":                             "f()",
		"f(int, char*)":                   "f(int, char*)",
		"(anonymous namespace)::f(std::string const&)":       "(anonymous namespace)::f(…)",
		"f(void (*)(int, int), unsigned long)":               "f(…)",
		"F::operator()(std::unique_lock<std::mutex>&) const": "F::operator()(…) const",
		"f(int)::{lambda(std::string const&)#1}":             "f(int)::{lambda(std::string const&)#1}",
		"f(std::vector<int> const&) [clone .constprop.0]":    "f(std::vector<int> const&) [clone .constprop.0]",
	} {
		if got := plainName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestLeaves: an address without a file is not the program's code.
func TestLeaves(t *testing.T) {
	if s := (&stackset.Stack{Frames: []stackset.Frame{{Address: 0x18}}}); Leaves(s) || Leaves(nil) {
		t.Error("leaves the C library without a file")
	}
}

// TestFunction: the place of the frame is that of the innermost function, also where it is
// inlined.
func TestFunction(t *testing.T) {
	n := &symbol.Name{Function: "POOL_thread", File: "/src/lib/pool.c", Line: 67, Inlined: []symbol.Call{
		{Function: "wait", File: "/src/wait.h", Line: 83}, {Function: "next\n"},
	}}
	if got, want := Function(n), `wait wait.h:83 < next\012 < POOL_thread pool.c:67`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	n.File = ""
	if got, want := Function(n), `wait wait.h:83 < next\012 < POOL_thread+0x0`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
