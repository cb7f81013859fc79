package tasks

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/compat"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/raw"
)

// TestIsForeign: 32-bit calls that can change code are told from the 64-bit calls that have their
// numbers, by their arguments, and those of the x32 ABI by their numbers.
func TestIsForeign(t *testing.T) {
	if len(foreignSpecs()) == 0 {
		t.Skip("no such calls on this machine")
	}
	formats := formatsOf(t, "")
	d, err := NewDecoder(formats)
	if err != nil {
		t.Fatal(err)
	}
	id := formats[len(formats)-1].ID
	for _, e := range formats {
		if e.System == "raw_syscalls" {
			id = e.ID
		}
	}
	const pointer, rx = 0x7ffc00001000, unix.PROT_READ | unix.PROT_EXEC
	for _, c := range []struct {
		name string
		args [5]uint64
		want bool
	}{
		{"mmap2 over something", [5]uint64{map32, 0x50000000, 0x8000, unix.PROT_READ, unix.MAP_PRIVATE | unix.MAP_FIXED}, true},
		{"mmap2 of code", [5]uint64{map32, 0, 0x8000, rx, unix.MAP_PRIVATE}, true},
		{"mmap2 of data", [5]uint64{map32, 0, 0x8000, unix.PROT_READ, unix.MAP_PRIVATE}, false},
		{"lgetxattr", [5]uint64{map32, pointer, pointer + 20, pointer + 40, 255}, false},
		{"lgetxattr in low memory, for the size", [5]uint64{map32, 0x601000, 0x601020, 0, 0}, false},
		{"old mmap", [5]uint64{oldMap32, 0xffffc000}, true},
		{"chmod", [5]uint64{oldMap32, pointer, 0o755}, false},
		{"munmap", [5]uint64{unmap32, 0x50000000, 0x8000}, true},
		{"fchmod", [5]uint64{unmap32, 3, 0o755}, false},
		{"fchmod of descriptor 0", [5]uint64{unmap32, 0, 0o755}, false},
		{"mremap", [5]uint64{move32, 0x50000000, 0x8000, 0x8000}, true},
		{"acct", [5]uint64{move32, pointer}, false},
		{"acct off", [5]uint64{move32, 0}, false},
		{"mprotect", [5]uint64{protect32, 0x50000000, 0x8000, rx}, true},
		{"mprotect, of data", [5]uint64{protect32, 0x50000000, 0x8000, unix.PROT_READ}, false},
		{"capget", [5]uint64{protect32, pointer, pointer + 8, rx}, false},
		{"shmat by ipc", [5]uint64{ipc32, 1<<16 | 21}, true},
		{"semop by ipc", [5]uint64{ipc32, 1}, false},
		{"setresuid", [5]uint64{ipc32, 1000, 1000, 1000}, false},
		{"setresuid, as it is", [5]uint64{ipc32, ^uint64(0), 0, 0}, false},
		{"shmdt", [5]uint64{detach32, 0x50000000}, true},
		{"x32 mmap", [5]uint64{compat.X32Bit | 9, 0, 0x1000, rx, unix.MAP_PRIVATE}, true},
		{"no call", [5]uint64{^uint64(0)}, false},
	} {
		data := words(append([]uint64{0}, append(c.args[:], 0, 0)...)...)
		e, ok := d.Decode(&raw.Record{Time: 9, TID: 77, ID: uint16(id), Data: data})
		if ok != c.want || ok && (e.Kind != Foreign || e.Args != c.args) {
			t.Errorf("%s: %+v, %v, want %v", c.name, e, ok, c.want)
		}
	}
}

// coded is an Asker of one process that has code.
type coded struct{ nothing }

func (coded) Code(_ int, start, end uint64, list []procmap.Mapping) ([]procmap.Mapping, error) {
	return append(list, procmap.Mapping{Start: 0x1000, End: 0x2000, Name: "/a", Inode: 1, Perms: procmap.Read | procmap.Exec, Kind: procmap.File}), nil
}

// TestForeign: after a call that is not seen with what it does, a process has no files until it
// executes another program, nor has its child.
func TestForeign(t *testing.T) {
	const parent, child = 1, 2
	now := tracefs.Time(0)
	spaces := space.New()
	tasks := New(spaces, coded{}, func() tracefs.Time { return now }, 0)
	event := func(e Event) {
		now += 10e6
		e.Time = now
		tasks.Add(e)
	}
	settle := func() {
		t.Helper()
		if err := tasks.Settle(func() error { now += 10e6; tasks.Drained(now); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, pid int, want bool) {
		t.Helper()
		settle()
		if _, ok := spaces.Lookup(pid, 0x1800, now); ok != want {
			t.Errorf("%s: process %d has a file: %v, want %v", what, pid, ok, want)
		}
	}
	execute := func(pid int) {
		event(Event{TID: pid, Kind: Exec})
		event(Event{TID: pid, Kind: Executed, Args: [5]uint64{uint64(pid), uint64(pid)}})
		event(Event{TID: pid, Kind: Exec, Return: true})
	}
	event(Event{TID: 9, Kind: Born, Args: [5]uint64{parent}})
	execute(parent)
	check("a program", parent, true)
	before := now
	event(Event{TID: parent, Kind: Foreign, Args: [5]uint64{map32}})
	check("after the call", parent, false)
	event(Event{TID: parent, Kind: Map, Args: [5]uint64{0x5000, 0x1000, unix.PROT_EXEC, unix.MAP_FIXED}})
	event(Event{TID: parent, Kind: Map, Return: true, Args: [5]uint64{0x5000}})
	check("after another one", parent, false)
	if _, ok := spaces.Lookup(parent, 0x1800, before); !ok {
		t.Error("the file of before the call is not known any more")
	}
	event(Event{TID: parent, Kind: Clone})
	event(Event{TID: parent, Kind: Born, Args: [5]uint64{child}})
	check("a child", child, false)
	execute(child)
	check("another program", child, true)
	check("the first one", parent, false)
}
