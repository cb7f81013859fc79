//go:build linux

package tasks

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// record gives tasks the events of our own process, each with its time in
// microseconds.
func record(t *testing.T, tasks *Tasks, events ...string) {
	t.Helper()
	var text strings.Builder
	for _, e := range events {
		at, body, _ := strings.Cut(e, " ")
		fmt.Fprintf(&text, "           <...>-%-7d [000] .....     1.%s: %s\n", os.Getpid(), at, body)
	}
	in, err := input.Open("-", strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	trace := input.NewTrace([]*input.File{in}, input.Options{Events: true, NoTemplates: true})
	for err == nil {
		var b tracefs.Batch
		err = trace.Next(&b)
		tasks.Record(&b)
	}
	if err != io.EOF {
		t.Fatal(err)
	}
}

// fresh are Tasks that have read all processes.
func fresh(t *testing.T) *Tasks {
	t.Helper()
	r, err := procmap.NewReader(procmap.Options{Stat: true, Filter: procmap.Filter{Perms: procmap.Exec}})
	if err != nil {
		t.Fatal(err)
	}
	tasks := New(space.New(), r, func() tracefs.Time { return at(10) })
	if err := tasks.Refresh(); err != nil {
		t.Fatal(err)
	}
	return tasks
}

// at is the time of an event of record.
func at(us tracefs.Time) tracefs.Time { return 1e9 + us*1000 }

// mapFile maps a new file as code, at an address if it is not nil.
func mapFile(t *testing.T, where unsafe.Pointer) (addr unsafe.Pointer, name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "file")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	flags := unix.MAP_PRIVATE
	if where != nil {
		flags |= unix.MAP_FIXED
	}
	addr, err = unix.MmapPtr(int(f.Fd()), 0, where, size, unix.PROT_READ|unix.PROT_EXEC, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.MunmapPtr(addr, size) })
	return addr, name
}

const size = 128 << 10

// TestBackAgain: a file that was mapped before some changes and is after them
// was not there all the time if it may have been mapped anew. What was mapped in
// between is gone when the process is read.
func TestBackAgain(t *testing.T) {
	addr, name := mapFile(t, nil)
	x := uintptr(addr)
	mmap := func(start, length uintptr, flags int) string {
		return fmt.Sprintf("sys_mmap(addr: 0x%x, len: 0x%x, prot: 0x00000005, flags: 0x%x, fd: 0x3, off: 0)", start, length, flags)
	}
	mremap := func(from, to uintptr) string {
		return fmt.Sprintf("sys_mremap(addr: 0x%x, old_len: 0x1000, new_len: 0x1000, flags: 0x3, new_addr: 0x%x)", from, to)
	}
	const fixed = unix.MAP_PRIVATE | unix.MAP_FIXED
	far := mmap(x+1<<30, size, fixed)
	for _, c := range []struct {
		what  string
		event string // the second of three changes, of which the others are far away
		named bool
	}{
		{"another place", far, true},
		{"the same place", mmap(x, size, fixed), false},
		{"the same place, before Linux 6.18", strings.ReplaceAll(mmap(x, size, fixed), "0x", ""), false},
		{"a part of it", mmap(x+uintptr(os.Getpagesize()), 1, fixed), false},
		{"up to it", mmap(x-uintptr(os.Getpagesize()), 4096, unix.MAP_PRIVATE|unix.MAP_FIXED_NOREPLACE), true},
		{"over all", mmap(x-1<<30, 2<<30, fixed), false},
		{"memory without a file", mmap(x, size, fixed|unix.MAP_ANONYMOUS), true},
		{"where the kernel likes", mmap(0, size, unix.MAP_PRIVATE), false},
		{"where the kernel likes, with an address", mmap(x+1<<30, size, unix.MAP_PRIVATE), false},
		{"made code", fmt.Sprintf("sys_mprotect(start: 0x%x, len: 0x1000, prot: 0x5)", x), false},
		{"other code", fmt.Sprintf("sys_mprotect(start: 0x%x, len: 0x1000, prot: 0x5)", x+1<<20), true},
		{"moved over it", mremap(x+1<<30, x), false},
		{"moved away", mremap(x, x+1<<30), false},
		{"moved elsewhere", mremap(x+1<<30, x+1<<31), true},
		{"moved somewhere", "sys_mremap(addr: 1, old_len: 2)", false},
		{"unreadable", "sys_mmap(addr: what, len: ever)", false},
		{"past the end", mmap(x, ^uintptr(0)-1, fixed), false},
	} {
		t.Run(c.what, func(t *testing.T) {
			tasks := fresh(t)
			record(t, tasks, "000100 "+far, "000200 "+c.event, "000300 "+far)
			if err := tasks.Settle(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			sp := tasks.spaces.Space(os.Getpid())
			for _, when := range []tracefs.Time{50, 350} {
				if p, ok := sp.Lookup(uint64(x), at(when)); !ok || p.Mapping.File.Name != name {
					t.Errorf("at %d: %+v %v", when, p, ok)
				}
			}
			for _, when := range []tracefs.Time{150, 250} {
				if p, ok := sp.Lookup(uint64(x), at(when)); ok != c.named {
					t.Errorf("at %d: %+v %v", when, p, ok)
				}
			}
		})
	}
}

// TestTooMany: nothing is known of processes that change when there are too many.
func TestTooMany(t *testing.T) {
	addr, _ := mapFile(t, nil)
	tasks := fresh(t)
	for pid := range maxChanges {
		tasks.change(-1-pid, at(50), nil)
	}
	record(t, tasks, "000100 sys_mmap(addr: 0, len: 0, prot: 5, flags: 2, fd: 3, off: 0)")
	sp := tasks.spaces.Space(os.Getpid())
	if _, ok := sp.Lookup(uint64(uintptr(addr)), at(50)); !ok {
		t.Error("not known before")
	}
	if p, ok := sp.Lookup(uint64(uintptr(addr)), at(150)); ok {
		t.Errorf("%+v", p)
	}
}

// TestUnread: of a process that changes and then ends, executes a program or makes
// another one before it could be read, its mappings are unknown from the change on.
func TestUnread(t *testing.T) {
	addr, name := mapFile(t, nil)
	x := uint64(uintptr(addr))
	pid, child := os.Getpid(), tracefs.MaxTID
	mapped := fmt.Sprintf("000100 sys_mmap(addr: 0x%x, len: 0x1000, prot: 0x5, flags: 0x12, fd: 0x3, off: 0)", x)
	for what, event := range map[string]string{
		"exit": fmt.Sprintf("000200 sched_process_exit: comm=x pid=%d prio=120", pid),
		"exec": fmt.Sprintf("000200 sched_process_exec: filename=/x pid=%d old_pid=%d", pid, pid),
		"fork": fmt.Sprintf("000200 sched_process_fork: comm=x pid=%d child_comm=x child_pid=%d", pid, child),
	} {
		t.Run(what, func(t *testing.T) {
			tasks := fresh(t)
			record(t, tasks, mapped, event)
			if what == "fork" { // and our process cannot be read, either
				tasks.changing[pid].gone = true
			}
			if err := tasks.Settle(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			if p, ok := tasks.spaces.Space(pid).Lookup(x, at(50)); !ok || p.Mapping.File.Name != name {
				t.Errorf("before: %+v %v", p, ok)
			}
			if p, ok := tasks.spaces.Space(pid).Lookup(x, at(150)); ok {
				t.Errorf("in between: %+v", p)
			}
			if p, ok := tasks.spaces.Space(child).Lookup(x, at(250)); ok {
				t.Errorf("of the child: %+v", p)
			}
		})
	}
}

// TestExecuting: between the call of execve and sched_process_exec a process has the
// mappings of the new program, but what runs is the old one.
func TestExecuting(t *testing.T) {
	const call, failed, done = "000200 sys_execve(filename: 1, argv: 2, envp: 3)", "000400 sys_execve -> 0xfffffffffffffffe",
		"000400 sched_process_exec: filename=/x pid=1 old_pid=1"
	pid := os.Getpid()
	for what, c := range map[string]struct {
		before, after []string // the reading
		event         string
		known         bool // at the call; at the end it always is
	}{
		"failed":     {[]string{call}, nil, failed, true},
		"done":       {[]string{call}, nil, done, true},
		"changing":   {[]string{"000100 sched_process_exec: filename=/x pid=1 old_pid=1", call}, nil, failed, false},
		"comes late": {[]string{"000100 sched_process_exec: filename=/x pid=1 old_pid=1"}, []string{call}, done, false},
	} {
		t.Run(what, func(t *testing.T) {
			addr, name := mapFile(t, nil)
			x := uint64(uintptr(addr))
			tasks := fresh(t)
			settle := func(events ...string) {
				t.Helper()
				drains := 0
				err := tasks.Settle(func() error {
					if drains++; drains == 2 {
						record(t, tasks, events...)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			record(t, tasks, c.before...)
			settle(c.after...)
			if p, ok := tasks.spaces.Space(pid).Lookup(x, at(250)); ok != c.known || ok && p.Mapping.File.Name != name {
				t.Errorf("while it executes: %+v %v", p, ok)
			}
			record(t, tasks, c.event)
			settle()
			if p, ok := tasks.spaces.Space(pid).Lookup(x, at(450)); !ok || p.Mapping.File.Name != name {
				t.Errorf("at the end: %+v %v", p, ok)
			}
			if p, ok := tasks.spaces.Space(pid).Lookup(x, at(250)); ok && !c.known {
				t.Errorf("later, while it executes: %+v %v", p, ok)
			}
		})
	}
}

// TestExecutingLost: nor is what is read of it because events were lost.
func TestExecutingLost(t *testing.T) {
	addr, name := mapFile(t, nil)
	tasks := fresh(t)
	tasks.clock = func() tracefs.Time { return at(300) }
	record(t, tasks, "000200 sys_execve(filename: 1, argv: 2, envp: 3)")
	tasks.Record(&tracefs.Batch{Records: []tracefs.Record{{Kind: tracefs.KindLost}}})
	sp := func() *space.Space { return tasks.spaces.Space(os.Getpid()) }
	if p, ok := sp().Lookup(uint64(uintptr(addr)), at(350)); ok {
		t.Errorf("while it executes: %+v", p)
	}
	record(t, tasks, "000400 sys_execve -> 0xfffffffffffffffe")
	if err := tasks.Settle(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if p, ok := sp().Lookup(uint64(uintptr(addr)), at(450)); !ok || p.Mapping.File.Name != name {
		t.Errorf("then: %+v %v", p, ok)
	}
}

// TestReread: what a process is found to have is not there before, and what it had
// is not there if it may have been mapped anew.
func TestReread(t *testing.T) {
	addr, name := mapFile(t, nil)
	x := uint64(uintptr(addr))
	tasks := fresh(t)
	now := at(300)
	tasks.clock = func() tracefs.Time { return now }
	late := fmt.Sprintf("000250 sys_mmap(addr: 0x%x, len: 0x1000, prot: 0x5, flags: 0x12, fd: 0x3, off: 0)", x)
	drain := func() error { // the event comes late
		if late != "" {
			record(t, tasks, late)
			late = ""
		}
		return nil
	}
	if err := tasks.Reread(os.Getpid(), drain); err != nil {
		t.Fatal(err)
	}
	sp := tasks.spaces.Space(os.Getpid())
	if p, ok := sp.Lookup(x, at(270)); ok {
		t.Errorf("in between: %+v", p)
	}
	if p, ok := sp.Lookup(x, at(310)); !ok || p.Mapping.File.Name != name {
		t.Errorf("then: %+v %v", p, ok)
	}
}

// TestSpans: what does not fit is taken for anything.
func TestSpans(t *testing.T) {
	var c touched
	for i := range uint64(maxSpans + 1) {
		if i == maxSpans && c.may(&procmap.Mapping{Start: 1 << 60, End: 1<<60 + 1}) {
			t.Error("too early")
		}
		c.span(i<<20, i<<20+1)
	}
	if !c.may(&procmap.Mapping{Start: 1 << 60, End: 1<<60 + 1}) {
		t.Error("forgotten")
	}
}

// TestMappedSince: what a process has mapped since a stack was not there at its time, not
// even late: another file may have been there, at the same address and by the same name.
func TestMappedSince(t *testing.T) {
	tasks := fresh(t)
	addr, name := mapFile(t, nil)
	x := uint64(uintptr(addr))
	record(t, tasks, fmt.Sprintf("000100 sys_mmap(addr: 0x%x, len: 0x%x, prot: 0x5, flags: 0x12, fd: 0x3, off: 0)", x, size))
	if err := tasks.Settle(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	sp := tasks.spaces.Space(os.Getpid())
	if p, ok := sp.Lookup(x, at(50)); ok {
		t.Errorf("before: %+v", p)
	}
	if p, ok := sp.Lookup(x, at(150)); !ok || p.Mapping.File.Name != name {
		t.Errorf("then: %+v %v", p, ok)
	}
}
