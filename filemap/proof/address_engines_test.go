package proof_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/observed"
	"ustack/filemap/procmap"
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/timeline"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// ground is what a process can have at an address. Two of one group are the same there.
type ground struct {
	group  int
	name   string
	inode  uint64
	offset uint64
	data   bool
}

var grounds = []ground{
	{group: 0}, // nothing
	{group: 1, name: "/lib/a", inode: 11, offset: 0x1000},
	{group: 1, name: "/lib/a", inode: 11, offset: 0x1000, data: true},
	{group: 1, name: "/lib/a (deleted)", inode: 11, offset: 0x1000},
	{group: 2, name: "/lib/a", inode: 11, offset: 0x2000},
	{group: 3, name: "/lib/b", inode: 12, offset: 0x1000},
	{group: 4, name: "/lib/a", inode: 13, offset: 0x1000},
	{group: 5, name: "/memfd:jit (deleted)", inode: 14},
	{group: 6, name: "/dev/zero (deleted)", inode: 15},
	{group: 7, name: "[anon:jit]"},
	{group: 8},
	{group: 9, name: "[vdso]"},
	{group: 10, name: "[uprobes]"},
}

const (
	groundAt, groundSize = uint64(0x7f0000001000), uint64(0x2000)
	groundEnd            = groundAt + groundSize
)

func (g *ground) dev() (d procmap.Dev) {
	if g.inode != 0 && strings.HasPrefix(g.name, "/lib") {
		d = procmap.Dev{Major: 8, Minor: 1}
	}
	return d
}

func (g *ground) kind() procmap.Kind { return procmap.Classify(g.name, g.dev(), g.inode) }

func (g *ground) mapping(at uint64) *procmap.Mapping {
	m := &procmap.Mapping{Start: at, End: at + groundSize, Offset: g.offset, Name: g.name, Inode: g.inode, Dev: g.dev(), Kind: g.kind(), Perms: procmap.Read}
	if !g.data {
		m.Perms |= procmap.Exec
	}
	return m
}

// line is the mapping as a dump has it.
func (g *ground) line(at uint64) string {
	perms := "r-xp"
	if g.data {
		perms = "r--p"
	}
	return fmt.Sprintf("%x-%x %s %08x %s %d %s\n", at, at+groundSize, perms, g.offset, g.dev(), g.inode, g.name)
}

// plain is a stack of one raw address of process 1.
func plain(addr uint64, at tracefs.Time) *resolve.Query {
	return &resolve.Query{TID: 1, TGID: 1, Time: at, Timed: true, Attributions: []resolve.Attribution{resolve.Unnamed(filemap.NoAddressSpace)},
		Frames: []tracefs.Frame{{Form: tracefs.FormPlain, Addr: addr, HasAddr: true}}}
}

// facts are what is known of an address: what was there at two moments, and whether they
// are of that time for certain.
type facts struct {
	addr  uint64
	at    [2]ground
	afoot bool // another process or time is possible
}

// exact has the engine of exact histories judge: what was there changes within the
// precision of the stamp.
func (f *facts) exact() *resolve.Attribution {
	spaces := space.New()
	spaces.Fork(99, 1, 1)
	for i, at := range []tracefs.Time{1000, 5300} {
		if i == 1 && f.at[1] == f.at[0] {
			continue
		}
		spaces.Unmap(1, groundAt, groundEnd, at)
		if f.at[i].group > 0 {
			spaces.MapExact(1, f.at[i].mapping(groundAt), at)
		}
	}
	s := plain(f.addr, 5000)
	timeline.New(timeline.Options{Spaces: spaces, Threads: threads{}, Stamp: timeline.TextStamp(), Foreign: func() bool { return f.afoot }}).Attribute(s)
	return &s.Attributions[0]
}

// dumped has the engine of dumps judge: the stack is between two readings, or after the
// last one.
func (f *facts) dumped(t *testing.T, dir string) *resolve.Attribution {
	t.Helper()
	var text strings.Builder
	for i := range f.at {
		reading(&text, tracefs.Time(2+i)*1e9)
		if f.at[i].group > 0 {
			text.WriteString(f.at[i].line(groundAt))
		}
	}
	s := plain(f.addr, 2_500e6)
	if f.afoot {
		s.Time = 9_000e6
	}
	ofDump(t, dir, text.String()).Attribute(s)
	return &s.Attributions[0]
}

// reading begins a reading of process 1, with its program.
func reading(w *strings.Builder, at tracefs.Time) {
	fmt.Fprintf(w, "### t=%d.%09d pid=1 comm=p exe=/p\n7f1000000000-7f1000001000 r--p 0 08:01 99 /p\n", at/1e9, at%1e9)
}

// ofDump is the engine of a dump of process 1, ready to decide.
func ofDump(t *testing.T, dir, text string) *observed.Mappings {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "1.maps"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := loadDump(t, dir)
	for !e.Solve() {
		continue
	}
	return e
}

// want is what the rules say of the facts.
func (f *facts) want(whole, sampled bool) string {
	a := proof.Address{Addr: f.addr, Whole: whole, Sampled: sampled}
	if f.afoot {
		a.Sure = proof.Afterwards
	}
	inside := groundAt <= f.addr && f.addr < groundEnd
	first := -1
	for i := range f.at {
		switch g := &f.at[i]; {
		case !inside || g.group == 0:
			a.Nothing(true)
		default:
			a.In(g.kind(), !g.data, false, first < 0 || f.at[first].group == g.group)
			if first < 0 {
				first = i
			}
		}
	}
	v := a.Decide()
	if v.Act == proof.Name {
		return f.at[first].named(f.addr-groundAt, v.Trust)
	}
	return v.Reason.String()
}

func bare(name string) string { return strings.TrimSuffix(name, " (deleted)") }

func words(o *resolve.Attribution) string {
	if o.File != nil {
		return fmt.Sprintf("%s+%#x %s", bare(o.File.Path), o.Offset, o.Trust)
	}
	return o.Reason.String()
}

// TestAddressEngines: of whatever facts, both engines say what the rules say, and the
// same where the facts are the same to both: if the address was in something at both
// moments. A dump only is not sure of it.
func TestAddressEngines(t *testing.T) {
	capturetest.SkipShort(t)
	r := rand.New(rand.NewPCG(3, 14))
	dir := t.TempDir()
	seen := map[string]int{}
	for range 1500 {
		f := facts{addr: groundAt + uint64(r.IntN(0x2000)), at: [2]ground{grounds[r.IntN(len(grounds))], grounds[r.IntN(len(grounds))]}, afoot: r.IntN(4) == 0}
		if r.IntN(2) == 0 {
			f.at[1] = f.at[0]
		}
		if r.IntN(10) == 0 {
			f.addr = []uint64{0x10, groundEnd, 0x2f6c656e72656b2f, 1<<63 + 5}[r.IntN(4)]
		}
		exact, dumped := f.exact(), f.dumped(t, dir)
		if got, want := words(exact), f.want(false, false); got != want {
			t.Errorf("%+v: by an exact history %q, want %q", f, got, want)
		}
		if got, want := words(dumped), f.want(true, true); got != want {
			t.Errorf("%+v: by a dump %q, want %q", f, got, want)
		}
		both := f.at[0].group > 0 && f.at[1].group > 0 && groundAt <= f.addr && f.addr < groundEnd
		if sure := strings.Replace(words(dumped), filemap.Late.String(), exact.Trust.String(), 1); both && (words(exact) != sure || dumped.Trust == filemap.Verified || (exact.Memory == nil) != (dumped.Memory == nil) || exact.Memory != nil && *exact.Memory != *dumped.Memory) {
			t.Errorf("%+v: %q %+v by an exact history, %q %+v by a dump", f, words(exact), exact.Memory, words(dumped), dumped.Memory)
		}
		seen[exact.Trust.String()+exact.Reason.String()]++
	}
	t.Log(seen)
	for _, want := range []string{"verified", "late", "ambiguous", "no-vma", "anonymous", "not-code", "vdso", "no-address-space"} {
		if seen[want] == 0 {
			t.Errorf("no frame is %s", want)
		}
	}
}

// places is a random history of what process 1 has at some places, which is read more
// often than it changes.
type places struct {
	rng    *rand.Rand
	spaces *space.Spaces
	dump   strings.Builder
	now    [4]ground
	had    []change
}

// change is what is at a place from a time on.
type change struct {
	at    tracefs.Time
	place int
	ground
}

func (p *places) address(place int) uint64 { return groundAt + uint64(place)<<20 }

func newPlaces(seed uint64) *places {
	p := &places{rng: rand.New(rand.NewPCG(seed, 15)), spaces: space.New()}
	p.spaces.Fork(99, 1, 1)
	for i := range tracefs.Time(60) {
		reading(&p.dump, (i+1)*step)
		for k := range p.now {
			if g := &p.now[k]; g.group > 0 {
				p.dump.WriteString(g.line(p.address(k)))
			}
		}
		p.change(p.rng.IntN(len(p.now)), (i+1)*step+step/4+tracefs.Time(p.rng.IntN(int(step/2))))
	}
	return p
}

func (p *places) change(place int, at tracefs.Time) {
	g, addr := grounds[p.rng.IntN(len(grounds))], p.address(place)
	p.spaces.Unmap(1, addr, addr+groundSize, at)
	if g.group > 0 {
		p.spaces.MapExact(1, g.mapping(addr), at)
	}
	p.now[place], p.had = g, append(p.had, change{at, place, g})
}

// at is what was at a place at a time.
func (p *places) at(place int, t tracefs.Time) (g ground) {
	for _, c := range p.had {
		if c.place == place && c.at <= t {
			g = c.ground
		}
	}
	return g
}

// TestAddressTruth: of one history, known exactly and by a dump, no engine gives an
// address a file that was not there: a dump may be late about what was there just before or
// after, when nothing was, and about what was there before it ended.
func TestAddressTruth(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(24) {
		p := newPlaces(seed)
		exact := timeline.New(timeline.Options{Spaces: p.spaces, Threads: threads{}, Stamp: timeline.TextStamp()})
		dumped := ofDump(t, t.TempDir(), p.dump.String())
		for range 3000 {
			place, at := p.rng.IntN(len(p.now)), step+tracefs.Time(p.rng.IntN(int(60*step)))
			if p.rng.IntN(8) == 0 { // as exactly as a stamp is
				c := p.had[p.rng.IntN(len(p.had))]
				place, at = c.place, c.at+tracefs.Time(p.rng.IntN(2000)-1000)
			}
			truth := p.at(place, at)
			settled := p.at(place, at-500) == truth && p.at(place, at+499) == truth
			addr := p.address(place) + uint64(p.rng.IntN(int(groundSize)))
			a, b := plain(addr, at), plain(addr, at)
			exact.Attribute(a)
			dumped.Attribute(b)
			x, y := &a.Attributions[0], &b.Attributions[0]
			code := truth.group > 0 && truth.kind().HasFile() && !truth.data
			if x.File != nil && settled && (!code || words(x) != truth.named(addr-p.address(place), filemap.Verified)) || code && settled && x.File == nil {
				t.Fatalf("seed %d, %#x at %d: %q by an exact history, but it is in %+v", seed, addr, at, words(x), truth)
			}
			late := y.Trust == filemap.Late && (truth.group == 0 || at > 60*step-step/10) // by then the dump has ended
			if y.File != nil && settled && !late && words(y) != truth.named(addr-p.address(place), y.Trust) {
				t.Fatalf("seed %d, %#x at %d: %q by a dump, but it is in %+v", seed, addr, at, words(y), truth)
			}
			counts["exact "+x.Trust.String()+x.Reason.String()]++
			counts["dump "+y.Trust.String()+y.Reason.String()]++
		}
	}
	t.Log(counts)
	for _, want := range []string{"exact verified", "exact ambiguous", "dump late", "dump ambiguous"} {
		if counts[want] < 100 {
			t.Errorf("%s: only %d", want, counts[want])
		}
	}
}

// named is a frame in the ground, in words.
func (g *ground) named(offset uint64, trust filemap.Trust) string {
	return fmt.Sprintf("%s+%#x %s", bare(g.name), offset+g.offset, trust)
}
