package timeline

import (
	"fmt"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// oneThread has each thread be a process.
type oneThread struct{}

func (oneThread) PID(tid int, _ tracefs.Time) (int, bool, bool) { return tid, false, true }

func elf(name string, start, end, offset uint64) *procmap.Mapping {
	id, _ := elfid.Parse([]byte("00112233445566778899aabbccddeeff00112233"))
	return &procmap.Mapping{Start: start, End: end, Offset: offset, Name: name, Inode: 7, BuildID: id,
		Perms: procmap.Read | procmap.Exec, Kind: procmap.Classify(name, procmap.Dev{Major: 8}, 7), Dev: procmap.Dev{Major: 8}}
}

func memory(name string, start, end uint64) *procmap.Mapping {
	return &procmap.Mapping{Start: start, End: end, Name: name, Perms: procmap.Read | procmap.Exec,
		Kind: procmap.Classify(name, procmap.Dev{}, 0)}
}

// stack is a stack of raw addresses to be attributed.
func stack(tid int32, t tracefs.Time, addrs ...uint64) *resolve.Query {
	s := &resolve.Query{TID: tid, Time: t, Timed: true}
	for _, a := range addrs {
		s.Frames = append(s.Frames, tracefs.Frame{Form: tracefs.FormPlain, Addr: a, HasAddr: true})
		s.Attributions = append(s.Attributions, resolve.Unnamed(filemap.NoAddressSpace))
	}
	return s
}

// said is an attribution in words.
func said(o *resolve.Attribution) string {
	name := ""
	if o.Memory != nil {
		name = o.Memory.Name + " "
	}
	switch {
	case o.File != nil:
		return fmt.Sprintf("%s+0x%x %s", o.File.Path, o.Offset, o.Trust)
	case o.HasOffset:
		return fmt.Sprintf("%s+0x%x %s", name, o.Offset, o.Reason)
	}
	return name + o.Reason.String()
}

func TestAttributeAddress(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/bin/a b", 0x401000, 0x402000, 0x1000), 1000)
	spaces.Map(1, memory("[vdso]", 0x7f0007000000, 0x7f0007002000), 1000)
	spaces.Map(1, memory("", 0x8000000, 0x8002000), 1000)
	spaces.Map(1, memory("[anon:jit code]", 0x9000000, 0x9002000), 1000)
	spaces.Exec(1, "next", 50_000)
	spaces.Loading(1, 50_000)
	spaces.Loaded(1, 55_000)
	spaces.Map(1, elf("/bin/next", 0x401000, 0x402000, 0x3000), 51_000)
	spaces.Exit(1, 90_000)
	spaces.Fork(1, 3, 60_000)
	spaces.Fork(3, 4, 70_000)
	spaces.Unknown(4, 0x401000, 0x402000, 70_000) // a thread mapped while another one forked
	spaces.Fork(4, 5, 75_000)
	spaces.Map(5, elf("/bin/seen", 0x401000, 0x402000, 0), 80_000)
	spaces.Unmap(5, 0x401000, 0x402000, 85_000)

	for _, test := range []struct {
		tid  int32
		time tracefs.Time
		addr uint64
		want string
	}{
		{1, 5000, 0x401234, "/bin/a b+0x1234 verified"},
		{1, 5000, 0x402000, "not-code"},
		{1, 5000, 0x7f0007000b2f, "[vdso] +0xb2f vdso"},
		{1, 5000, 0x8000010, "[anon] anonymous"},
		{1, 5000, 0x9000010, "[anon:jit code] anonymous"},
		{1, 5000, 0xffffffffff600400, "no-vma"},
		{1, 5000, 0x10, "no-vma"},
		{1, 52_000, 0x401234, "ambiguous"}, // of which program?
		{1, 54_501, 0x401234, "ambiguous"},
		{1, 55_500, 0x401234, "/bin/next+0x3234 verified"},
		{1, 60_000, 0x401234, "/bin/next+0x3234 verified"},
		{1, 60_000, 0x9000010, "not-code"},
		{1, 89_000, 0x401234, "/bin/next+0x3234 verified"},
		{3, 70_000, 0x401234, "/bin/next+0x3234 verified"},
		{4, 74_000, 0x401234, "no-address-space"},
		{4, 74_000, 0x9000010, "not-code"},
		{5, 82_000, 0x401234, "/bin/seen+0x234 verified"},
		{5, 89_000, 0x401234, "not-code"},
		// Within a microsecond of the exec the program is ambiguous, but only one
		// of them had anything there.
		{1, 49_500, 0x401234, "/bin/a b+0x1234 verified"},
		{2, 5000, 0x401234, "no-address-space"},
	} {
		j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
		for range 2 { // the second time from what is remembered
			s := stack(test.tid, test.time, test.addr)
			j.Attribute(s)
			if got := said(&s.Attributions[0]); got != test.want {
				t.Errorf("thread %d at %d: %#x is %q, want %q", test.tid, test.time, test.addr, got, test.want)
			}
		}
	}
}

// TestAttributeClash: two files at an address within the precision of the stamp.
func TestAttributeClash(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 1000)
	spaces.Map(1, elf("/lib/two", 0x10000, 0x20000, 0), 5300)
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
	for _, test := range []struct {
		time tracefs.Time
		want string
	}{{4000, "/lib/one+0x10 verified"}, {5000, "ambiguous"}, {6000, "/lib/two+0x10 verified"}} {
		s := stack(1, test.time, 0x10010)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("at %d: %q, want %q", test.time, got, test.want)
		}
	}
}

// TestAttributeSinceEvent: a stack is of the time of its event, which the kernel may write
// long before the stack, in which time another file can take the place.
func TestAttributeSinceEvent(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 1000)
	spaces.Map(1, elf("/lib/kept", 0x30000, 0x40000, 0), 1000)
	spaces.Map(1, elf("/lib/two", 0x10000, 0x20000, 0), 40_000)
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 60_000)
	for _, test := range []struct {
		event, time tracefs.Time
		addr        uint64
		want        string
	}{
		{0, 45_000, 0x10010, "/lib/two+0x10 verified"}, // it stands by itself
		{42_000, 45_000, 0x10010, "/lib/two+0x10 verified"},
		{10_000, 45_000, 0x10010, "ambiguous"},
		{39_000, 41_000, 0x10010, "ambiguous"},
		{10_000, 65_000, 0x10010, "ambiguous"}, // it came back
		{10_000, 30_000, 0x10010, "/lib/one+0x10 verified"},
		{10_000, 65_000, 0x30010, "/lib/kept+0x10 verified"},
		{10_000, 45_000, 0x50010, "not-code"},
	} {
		j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
		alone := stack(1, test.time, test.addr)
		j.Attribute(alone) // what is remembered of it is not the event's
		s := stack(1, test.time, test.addr)
		s.Event = test.event
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("at %d, event at %d: %q, want %q", test.time, test.event, got, test.want)
		}
	}
}

// TestAttributeOtherClock: without a time in nanoseconds nothing is said.
func TestAttributeOtherClock(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 1000)
	s := stack(1, 5000, 0x10010)
	s.Timed = false
	New(Options{Spaces: spaces, Threads: oneThread{}}).Attribute(s)
	if got := said(&s.Attributions[0]); got != "no-address-space" {
		t.Errorf("%q", got)
	}
}

// claimed is a frame with an identifier that the kernel says is a file.
func claimed(t tracefs.Time, hash, offset uint64, file *filemap.File) *resolve.Query {
	s := &resolve.Query{TID: 1, Time: t, Timed: true}
	s.Frames = []tracefs.Frame{{Form: tracefs.FormIdentifier, ID: tracefs.HashIdentifier(hash), Addr: offset, HasAddr: true}}
	s.Attributions = []resolve.Attribution{resolve.Unnamed(filemap.Unannounced)}
	if file != nil {
		s.Attributions[0] = resolve.Named(file, filemap.Claimed)
	}
	return s
}

// owning makes a frame one whose own stack made the kernel announce.
func owning(s *resolve.Query) *resolve.Query {
	s.Attributions[0] = resolve.Own(s.Attributions[0].File)
	return s
}

var testID = filemap.BuildID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0, 0x11, 0x22, 0x33}

// TestAttributeClaim: what the kernel announced because of another stack stays a
// claim, whatever fits: the process can have more mapped than its code. It never
// becomes another file.
func TestAttributeClaim(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/small", 0x100000, 0x120000, 0x1000), 1000)
	spaces.Map(1, elf("/lib/big", 0x200000, 0x400000, 0x1000), 1000)
	small := &filemap.File{Path: "/lib/small", HasID: true, BuildID: testID}
	big := &filemap.File{Path: "/lib/big", HasID: true, BuildID: testID}
	rebuilt := &filemap.File{Path: "/lib/big", HasID: true, BuildID: filemap.BuildID{1}}
	gone := &filemap.File{Path: "/lib/gone", HasID: true, BuildID: testID}

	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Unseen: nothingUnseen})
	for _, test := range []struct {
		name   string
		hash   uint64
		offset uint64
		file   *filemap.File
		want   string
	}{
		{"both have it there", 1, 0x5000, small, "/lib/small+0x0 claimed"},
		{"only one has it there", 2, 0x80000, big, "/lib/big+0x0 claimed"},
		{"in the data of the claimed file, or stale", 3, 0x80000, small, "not-code"},
		{"stale: not mapped at all", 4, 0x5000, gone, "contradicted"},
		{"another build", 5, 0x80000, rebuilt, "contradicted"},
		{"no code there", 6, 0x900000, big, "not-code"},
		{"never announced", 7, 0x80000, nil, "unannounced"},
		{"never announced, either", 8, 0x5000, nil, "unannounced"},
	} {
		s := claimed(5000, test.hash, test.offset, test.file)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	// Before anything is known of the process the claim stands.
	s := claimed(0, 9, 0x5000, gone)
	j.Attribute(s)
	if got := said(&s.Attributions[0]); got != "/lib/gone+0x0 claimed" {
		t.Errorf("before: %q", got)
	}
}

// TestAttributeInode: device and inode of the mapping decide, and it has the build
// ID.
func TestAttributeInode(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x100000, 0x120000, 0x1000), 1000) // inode 7 of 8:0
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
	for _, test := range []struct {
		inode  uint64
		offset uint64
		file   *filemap.File
		want   string
	}{
		{7, 0x5000, nil, "/lib/one+0x0 verified"},
		{7, 0x5000, &filemap.File{Path: "/lib/recycled"}, "/lib/one+0x0 verified"},
		{7, 0x90000, &filemap.File{Path: "/lib/one"}, "not-code"},
		{8, 0x5000, &filemap.File{Path: "/lib/other"}, "contradicted"},
	} {
		s := claimed(5000, 0, test.offset, test.file)
		s.Frames[0].ID = tracefs.InodeIdentifier(test.inode, 8, 0)
		j.Attribute(s)
		o := &s.Attributions[0]
		if got := said(o); got != test.want || o.File != nil && o.File.BuildID != testID {
			t.Errorf("%d+%#x: %q, want %q; %+v", test.inode, test.offset, got, test.want, o.File)
		}
	}
}

// TestAttributePin: a mapping event is about the mapping that the kernel looked at,
// for as long as that stays.
func TestAttributePin(t *testing.T) {
	one := &filemap.File{Path: "/lib/one", HasID: true, BuildID: testID}
	for _, test := range []struct {
		name   string
		unmaps bool
		then   func(s *space.Spaces)
		tid    int32
		want   string
	}{
		{"it stays", true, nil, 1, "/lib/one+0x0 verified"},
		{"munmap is not seen", false, nil, 1, "/lib/one+0x0 claimed"},
		{"unmapped, and mapped elsewhere", true, func(s *space.Spaces) {
			s.Unmap(1, 0x100000, 0x120000, 20_000)
			s.MapExact(1, elf("/lib/one", 0x300000, 0x320000, 0x1000), 21_000)
			s.MapExact(1, elf("/lib/two", 0x400000, 0x420000, 0x1000), 22_000)
		}, 1, "ambiguous"},
		{"mapped again in the same place", false, func(s *space.Spaces) {
			s.MapExact(1, elf("/lib/one", 0x100000, 0x120000, 0x1000), 21_000)
			s.MapExact(1, elf("/lib/two", 0x400000, 0x420000, 0x1000), 22_000)
		}, 1, "ambiguous"},
		{"perhaps unmapped, and another came", false, func(s *space.Spaces) {
			s.MapExact(1, elf("/lib/two", 0x400000, 0x420000, 0x1000), 22_000)
		}, 1, "ambiguous"},
		{"another came while it stays", true, func(s *space.Spaces) {
			s.MapExact(1, elf("/lib/two", 0x400000, 0x420000, 0x1000), 22_000)
		}, 1, "/lib/one+0x0 verified"},
		{"another program", true, func(s *space.Spaces) {
			s.Exec(1, "next", 20_000)
			s.MapExact(1, elf("/lib/two", 0x100000, 0x120000, 0x1000), 22_000)
		}, 1, "contradicted"},
		{"a child has it", true, func(s *space.Spaces) { s.Fork(1, 2, 20_000) }, 2, "/lib/one+0x0 verified"},
		{"a child whose parent has ended", true, func(s *space.Spaces) {
			s.Fork(1, 2, 20_000)
			s.Exit(1, 25_000)
		}, 2, "/lib/one+0x0 verified"},
	} {
		var unseen func(from, to tracefs.Time) bool
		if test.unmaps {
			unseen = nothingUnseen
		}
		spaces := space.New()
		spaces.Fork(9, 1, 500)
		spaces.MapExact(1, elf("/lib/one", 0x100000, 0x120000, 0x1000), 1000)
		if test.then != nil {
			test.then(spaces)
		}
		j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Unseen: unseen})
		s := owning(claimed(5000, 1, 0x5000, one))
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != "/lib/one+0x0 verified" {
			t.Errorf("%s: the announcement's own stack: %q", test.name, got)
		}
		s = claimed(30_000, 1, 0x5000, one)
		s.TID = test.tid
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestAttributeProgram: the program itself stays open for as long as the process
// runs it, whether or not munmap is seen.
func TestAttributeProgram(t *testing.T) {
	spaces := space.New()
	spaces.Exec(1, "prog", 1000)
	spaces.Loading(1, 1000)
	spaces.MapExact(1, elf("/bin/prog", 0x100000, 0x120000, 0x1000), 1100)
	spaces.MapExact(1, elf("/lib/ld.so", 0x200000, 0x220000, 0x1000), 1200)
	spaces.Loaded(1, 1300)
	spaces.MapExact(1, elf("/lib/plug", 0x400000, 0x420000, 0x1000), 8000)
	spaces.Exec(1, "next", 50_000)
	spaces.MapExact(1, elf("/bin/prog", 0x100000, 0x120000, 0x1000), 51_000)
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
	prog := &filemap.File{Path: "/bin/prog", HasID: true, BuildID: testID}
	ld := &filemap.File{Path: "/lib/ld.so", HasID: true, BuildID: testID}
	j.Attribute(owning(claimed(5000, 1, 0x5000, prog)))
	j.Attribute(owning(claimed(5000, 2, 0x5000, ld)))
	for _, test := range []struct {
		time tracefs.Time
		hash uint64
		file *filemap.File
		want string
	}{
		{20_000, 1, prog, "/bin/prog+0x0 verified"},
		{20_000, 2, ld, "ambiguous"},
		{55_000, 1, prog, "/bin/prog+0x0 claimed"}, // opened anew
	} {
		s := claimed(test.time, test.hash, 0x5000, test.file)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("%#x at %d: %q, want %q", test.hash, test.time, got, test.want)
		}
	}
}

// TestAttributeProgramBefore: a stack of before the program ran, judged when it has
// run, has not its file: stacks that come too late are looked for in a second
// reading.
func TestAttributeProgramBefore(t *testing.T) {
	spaces := space.New()
	spaces.MapExact(2, elf("/bin/prog", 0x100000, 0x120000, 0x1000), 100)
	spaces.MapExact(2, elf("/lib/old", 0x200000, 0x220000, 0x1000), 100)
	spaces.Unmap(2, 0x200000, 0x220000, 2000)
	spaces.Exec(1, "prog", 3000)
	spaces.Loading(1, 3000)
	spaces.MapExact(1, elf("/bin/prog", 0x100000, 0x120000, 0x1000), 3100)
	spaces.Loaded(1, 3300)
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
	j.Attribute(owning(claimed(5000, 1, 0x5000, &filemap.File{Path: "/bin/prog", HasID: true, BuildID: testID})))
	s := claimed(700, 1, 0x5000, &filemap.File{Path: "/lib/old", HasID: true, BuildID: testID})
	s.TID = 2
	j.Attribute(s)
	if got := said(&s.Attributions[0]); got != "ambiguous" {
		t.Errorf("%q, want ambiguous", got)
	}
}

// answers is a Querier that knows.
type answers struct {
	spaces *space.Spaces
	m      *procmap.Mapping
	asked  int
}

func (a *answers) Ask(pid int, addr uint64, t tracefs.Time) bool {
	a.asked++
	if a.m == nil || !a.m.Contains(addr) {
		return false
	}
	a.spaces.Map(pid, a.m, t+5000)
	return true
}

func (a *answers) Meet(pid int, t tracefs.Time) bool { return a.Ask(pid, 0x30010, t) }

func TestAttributeAsks(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 1000)
	data := elf("/lib/data", 0x30000, 0x40000, 0)
	data.Perms = procmap.Read
	a := &answers{spaces: spaces, m: data}
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Querier: a, Stamp: TextStamp()})
	for _, test := range []struct {
		tid   int32
		addr  uint64
		want  string
		asked int
	}{
		{1, 0x10010, "/lib/one+0x10 verified", 0},
		{1, 0x30010, "not-code", 1},
		{1, 0x30020, "not-code", 1},
		{1, 0x50020, "not-code", 2},
		{2, 0x30010, "not-code", 3},
	} {
		s := stack(test.tid, 5000, test.addr)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want || a.asked != test.asked {
			t.Errorf("%#x: %q after %d questions, want %q after %d", test.addr, got, a.asked, test.want, test.asked)
		}
	}
}

// nothingUnseen is the Unseen of a judge to which all unmapping is reported.
func nothingUnseen(_, _ tracefs.Time) bool { return false }
