package timeline

import (
	"testing"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// TestAddressUnknown: what was at an address before it became unknown says nothing about
// a stack that can be from after that.
func TestAddressUnknown(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 1000)
	spaces.Unknown(1, 0x10000, 0x20000, 5300)
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
	for _, test := range []struct {
		time tracefs.Time
		want string
	}{{4000, "/lib/one+0x10 verified"}, {5000, "no-address-space"}, {6000, "no-address-space"}} {
		s := stack(1, test.time, 0x10010)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("at %d: %q, want %q", test.time, got, test.want)
		}
	}
}

// TestAddressRead: what a process had when it was read is not proven for a stack that can
// be from before that.
func TestAddressRead(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 5000)
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
	for _, test := range []struct {
		time tracefs.Time
		want string
	}{{4000, "/lib/one+0x10 late"}, {5100, "/lib/one+0x10 late"}, {6000, "/lib/one+0x10 verified"}} {
		s := stack(1, test.time, 0x10010)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("at %d: %q, want %q", test.time, got, test.want)
		}
	}
}

// TestAddressNone: an address that user space cannot have has the reason for that at any
// time, also in the middle of an exec and while records are missing.
func TestAddressNone(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 1000)
	spaces.Exec(1, "next", 20_000)
	spaces.Loading(1, 20_000)
	spaces.Loaded(1, 30_000)
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Doubtful: func(at tracefs.Time) (missed, until tracefs.Time, doubtful bool) {
		return 45_000, 50_000, at >= 40_000 && at < 50_000
	}})
	for _, at := range []tracefs.Time{5000, 25_000, 45_000} {
		s := stack(1, at, 1<<63, 0x10, 0x2f6c656e72656b2f)
		j.Attribute(s)
		for k := range s.Attributions {
			if got := said(&s.Attributions[k]); got != "no-vma" {
				t.Errorf("%#x at %d: %q", s.Frames[k].Addr, at, got)
			}
		}
	}
}

// TestAddressSame: what a file or memory is called or how large it is can change while
// records are missing.
func TestAddressSame(t *testing.T) {
	grown := memory("[stack]", 0x7ffe0000, 0x80000000)
	rewritten := elf("/lib/a", 0x10000, 0x20000, 0)
	rewritten.BuildID, _ = elfid.Parse([]byte("ff112233445566778899aabbccddeeff00112233"))
	again := elf("/lib/a", 0x10000, 0x20000, 0)
	again.Generation++
	for _, test := range []struct {
		name          string
		before, after *procmap.Mapping
		addr          uint64
		want          string
	}{
		{"deleted", elf("/lib/a", 0x10000, 0x20000, 0), elf("/lib/a (deleted)", 0x10000, 0x20000, 0), 0x10010, "/lib/a+0x10 late"},
		{"another name", elf("/lib/a", 0x10000, 0x20000, 0), elf("/lib/b", 0x10000, 0x20000, 0), 0x10010, "lost"},
		{"another build", elf("/lib/a", 0x10000, 0x20000, 0), rewritten, 0x10010, "lost"},
		{"another file of its number", elf("/lib/a", 0x10000, 0x20000, 0), again, 0x10010, "lost"},
		{"another offset", elf("/lib/a", 0x10000, 0x20000, 0), elf("/lib/a", 0x10000, 0x20000, 0x1000), 0x10010, "lost"},
		{"a stack that grows", memory("[stack]", 0x7fff0000, 0x80000000), grown, 0x7fff0010, "[stack] anonymous"},
		{"memory of another name", memory("[stack]", 0x7fff0000, 0x80000000), memory("[anon:x]", 0x7fff0000, 0x80000000), 0x7fff0010, "lost"},
	} {
		spaces := space.New()
		spaces.Map(1, test.before, 1000)
		spaces.Unmap(1, test.before.Start, test.before.End, 70_000)
		spaces.Map(1, test.after, 70_000)
		j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp(), Doubtful: func(at tracefs.Time) (missed, until tracefs.Time, doubtful bool) {
			return 60_000, 75_000, at >= 50_000 && at < 75_000
		}})
		s := stack(1, 55_000, test.addr)
		j.Attribute(s)
		if got := said(&s.Attributions[0]); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestAddressWhy: explain gets the rule that decides.
func TestAddressWhy(t *testing.T) {
	spaces := space.New()
	spaces.Map(1, elf("/lib/one", 0x10000, 0x20000, 0), 1000)
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
	for addr, want := range map[uint64]proof.Step{
		0x10010: {Statement: proof.Mapped, PID: 1, File: "/lib/one", From: 4500, To: 5499},
		0x30010: {Statement: proof.Codeless, PID: 1, From: 4500, To: 5499},
		1 << 63: {Statement: proof.NotUser, PID: 1, From: 4500, To: 5499},
	} {
		j.Attribute(stack(1, 5000, addr))
		var why proof.Steps
		if j.landed(&why, 1, 5000); len(why) != 1 || why[0] != want {
			t.Errorf("%#x: %+v, want %+v", addr, why, want)
		}
	}
}

// BenchmarkAddress: stacks of raw addresses, seen before (hit) and not.
func BenchmarkAddress(b *testing.B) {
	spaces := space.New()
	for i := range uint64(64) {
		spaces.Map(1, elf("/lib/one", (i+1)<<20, (i+1)<<20+0x10000, 0), 1000)
	}
	j := New(Options{Spaces: spaces, Threads: oneThread{}, Stamp: TextStamp()})
	for name, span := range map[string]uint64{"hit": 64, "miss": 1 << 16} {
		b.Run(name, func(b *testing.B) {
			addrs := make([]uint64, 16)
			s := stack(1, 5000, addrs...)
			asked := s.Attributions[0]
			b.ReportAllocs()
			n := uint64(0)
			for b.Loop() {
				for k := range s.Frames {
					s.Frames[k].Addr, s.Attributions[k] = (n%64+1)<<20|n%span, asked
					n++
				}
				j.Attribute(s)
			}
		})
	}
}
