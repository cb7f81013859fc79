package space

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// mapping makes a mapping of a file.
func mapping(start, end, offset uint64, name string) procmap.Mapping {
	return procmap.Mapping{Start: start, End: end, Offset: offset, Name: name, Perms: procmap.Read | procmap.Exec,
		Dev: procmap.Dev{Major: 8}, Inode: uint64(len(name))}
}

func process(pid int, start uint64, comm string, ms ...procmap.Mapping) *procmap.Process {
	return &procmap.Process{PID: pid, Stat: procmap.Stat{Comm: comm, StartTime: start}, Mappings: ms}
}

// where is what an address was: "file+0xoffset", with "late" if so, "" for
// nothing.
func where(s interface {
	Lookup(int, uint64, tracefs.Time) (Place, bool)
}, pid int, addr uint64, t tracefs.Time) string {
	p, ok := s.Lookup(pid, addr, t)
	if !ok {
		return ""
	}
	late := ""
	if p.Late {
		late = " late"
	}
	return fmt.Sprintf("%s+%#x%s", p.Mapping.File.Name, p.Offset, late)
}

type lookup struct {
	addr uint64
	t    tracefs.Time
	want string
}

func check(t *testing.T, s *Spaces, pid int, lookups []lookup) {
	t.Helper()
	for _, l := range lookups {
		if got := where(s, pid, l.addr, l.t); got != l.want {
			t.Errorf("process %d, %#x at %d is %q, want %q", pid, l.addr, l.t, got, l.want)
		}
	}
}

// TestReplace: what a process had mapped when it was read again and again.
func TestReplace(t *testing.T) {
	a, b, c := mapping(0x1000, 0x3000, 0x5000, "/a"), mapping(0x8000, 0x9000, 0, "/b"), mapping(0x1000, 0x3000, 0, "/c")
	s := New()
	if !s.Replace(process(7, 100, "x", a), 10) {
		t.Error("the first reading changes nothing")
	}
	if s.Replace(process(7, 100, "x", a), 20) {
		t.Error("the same reading changes something")
	}
	if !s.Replace(process(7, 100, "x", a, b), 30) || len(s.Space(7).Versions()) != 1 {
		t.Errorf("more mappings: %+v", s.Space(7).Versions())
	}
	if !s.Replace(process(7, 100, "x", b, c), 40) || len(s.Space(7).Versions()) != 2 {
		t.Errorf("other mappings: %+v", s.Space(7).Versions())
	}
	check(t, s, 7, []lookup{
		{0x1000, 10, "/a+0x5000"}, {0x2fff, 39, "/a+0x6fff"}, {0x3000, 39, ""}, {0xfff, 39, ""},
		{0x1000, 5, "/a+0x5000 late"}, {0x8000, 25, "/b+0x0 late"}, {0x8000, 30, "/b+0x0"}, {0x8000, 50, "/b+0x0"},
		{0x1000, 40, "/c+0x0"}, {0x1000, 1 << 40, "/c+0x0"},
	})
	check(t, s, 8, []lookup{{0x1000, 10, ""}})
	if s.Replace(process(7, 100, "x", a), 35) {
		t.Error("a reading that is older than what is known is taken")
	}
	s.Exit(7, 50)
	s.Exit(7, 60)
	check(t, s, 7, []lookup{{0x1000, 45, "/c+0x0"}, {0x1000, 50, ""}})

	// Another process gets the PID.
	s.Replace(process(7, 200, "y", b), 70)
	check(t, s, 7, []lookup{{0x1000, 45, "/c+0x0"}, {0x8000, 45, "/b+0x0"}, {0x8000, 55, "/b+0x0 late"}, {0x8000, 75, "/b+0x0"}, {0x1000, 75, ""}})
	s.Replace(process(7, 300, "z", a), 80) // and another one, unseen its end
	check(t, s, 7, []lookup{{0x1000, 75, ""}, {0x1000, 85, "/a+0x5000"}, {0x8000, 85, ""}})
}

// TestOldNews: a change noted after a newer reading counts until that reading.
func TestOldNews(t *testing.T) {
	a, b, c := mapping(0x1000, 0x2000, 0, "/a"), mapping(0x1000, 0x2000, 0x1000, "/b"), mapping(0x3000, 0x4000, 0, "/c")
	s := New()
	s.Replace(process(1, 5, "x", a), 10)
	s.Replace(process(1, 5, "y", b, c), 100)
	s.Exec(1, "y", 90)
	s.Map(1, &b, 91)
	s.Map(1, &a, 92)
	s.Fork(1, 2, 93)
	s.Unmap(1, 0x1000, 0x2000, 94)
	check(t, s, 1, []lookup{{0x1000, 89, "/a+0x0"}, {0x1000, 90, "/b+0x1000 late"}, {0x1000, 91, "/b+0x1000"}, {0x1000, 92, "/a+0x0"},
		{0x1000, 95, ""}, {0x1000, 100, "/b+0x1000"}, {0x3000, 100, "/c+0x0"}, {0x3000, 50, ""}})
	check(t, s, 2, []lookup{{0x1000, 93, "/a+0x0"}, {0x1000, 200, "/a+0x0"}})
	s.Replace(process(3, 5, "new", c), 100)
	s.Fork(1, 3, 91) // it was made before it was read
	check(t, s, 3, []lookup{{0x1000, 95, "/b+0x1000"}, {0x3000, 100, "/c+0x0"}, {0x1000, 100, ""}})
	s.Exit(3, 98)
	check(t, s, 3, []lookup{{0x1000, 97, "/b+0x1000"}, {0x3000, 99, "/c+0x0 late"}, {0x3000, 100, "/c+0x0"}})
}

// TestUnknownThen: what came to light next is late, unless it is another
// program's.
func TestUnknownThen(t *testing.T) {
	a, b, c := mapping(0x1000, 0x2000, 0, "/a"), mapping(0x8000, 0x9000, 0, "/b"), mapping(0x5000, 0x6000, 0, "/c")
	s := New()
	s.Replace(process(1, 5, "x", a, c), 10)
	s.Replace(process(1, 5, "x", a, b), 20)
	check(t, s, 1, []lookup{{0x8000, 15, "/b+0x0 late"}, {0x5000, 25, ""}})
	s.Exec(1, "y", 30)
	s.Map(1, &b, 31)
	s.Map(1, &c, 32)
	check(t, s, 1, []lookup{{0x5000, 25, ""}, {0x5000, 31, "/c+0x0 late"}, {0x5000, 32, "/c+0x0"}, {0x1000, 35, ""}})
	// As it shows to who reads: nothing is as it was.
	s.Replace(process(1, 5, "z", mapping(0x2000, 0x3000, 0, "/d")), 40)
	check(t, s, 1, []lookup{{0x2000, 35, ""}, {0x2000, 40, "/d+0x0"}})
	// [vsyscall] is everywhere.
	gate := procmap.Mapping{Start: 1 << 63, End: 1<<63 + 4096, Name: "[vsyscall]", Kind: procmap.Vsyscall}
	s.Replace(process(2, 5, "x", a, gate), 10)
	s.Replace(process(2, 5, "x", b, gate), 20)
	check(t, s, 2, []lookup{{0x8000, 15, ""}, {1 << 63, 15, "[vsyscall]+0x0"}})
}

// TestSideBand: changes are noted one by one.
func TestSideBand(t *testing.T) {
	a := mapping(0x1000, 0x9000, 0x1000, "/a")
	over := mapping(0x3000, 0x5000, 0, "/over")
	s := New()
	s.Map(1, &a, 10)
	s.Map(1, &over, 20)
	s.Fork(1, 2, 25)
	s.Unmap(1, 0x4000, 0x6000, 30)
	s.Unmap(1, 0x100000, 0x200000, 31)
	check(t, s, 1, []lookup{
		{0x3000, 15, "/a+0x3000"}, {0x3000, 20, "/over+0x0"}, {0x2000, 25, "/a+0x2000"}, {0x8000, 25, "/a+0x8000"},
		{0x4000, 29, "/over+0x1000"}, {0x4000, 30, ""}, {0x5fff, 30, ""}, {0x6000, 30, "/a+0x6000"}, {0x3fff, 30, "/over+0xfff"},
	})
	check(t, s, 2, []lookup{{0x3000, 25, "/over+0x0"}, {0x5000, 40, "/a+0x5000"}})
	if s.Space(1).Versions()[1].Mappings != s.Space(2).Versions()[0].Mappings {
		t.Error("parent and child do not share their mappings")
	}
	s.Exec(2, "b", 50)
	check(t, s, 2, []lookup{{0x3000, 49, "/over+0x0"}, {0x3000, 50, ""}})
	s.Fork(99, 3, 60)
	check(t, s, 3, []lookup{{0x3000, 60, ""}})
	s.Replace(process(3, 5, "c", a), 61) // its start time came to light
	check(t, s, 3, []lookup{{0x1000, 60, "/a+0x1000 late"}, {0x1000, 61, "/a+0x1000"}})
	s.Unmap(77, 0, 1<<63, 1)
	s.Exit(77, 1)
	if s.Space(77) != nil && len(s.Space(77).Versions()) > 0 {
		t.Error("a process came from nowhere")
	}
}

// TestSnapshot: a snapshot stays as it was, and shares what did not change.
func TestSnapshot(t *testing.T) {
	s := New()
	for pid := range 1000 {
		s.Replace(process(pid, 5, "x", mapping(0x1000, 0x2000, 0, "/a")), 10)
	}
	snap := s.Snapshot()
	s.Replace(process(7, 5, "x", mapping(0x1000, 0x2000, 0, "/b")), 20)
	s.Exit(8, 20)
	for pid, want := range map[int]string{7: "/a+0x0", 8: "/a+0x0", 9: "/a+0x0"} {
		if got := where(snap, pid, 0x1000, 30); got != want {
			t.Errorf("in the snapshot process %d has %q", pid, got)
		}
	}
	if snap.Space(9) != s.Space(9) || snap.Space(7) == s.Space(7) {
		t.Error("what did not change is not shared")
	}
	n := 0
	snap.Each(func(*Space) bool { n++; return n < 500 })
	if n != 500 {
		t.Errorf("%d of 500 spaces", n)
	}
	if allocs := testing.AllocsPerRun(10, func() { s.Snapshot() }); allocs > 1 {
		t.Errorf("a snapshot takes %v allocations", allocs)
	}
}

// TestExpire: what ended is forgotten, with its files.
func TestExpire(t *testing.T) {
	s := New()
	for pid := range 2 * sweepAbove {
		s.Replace(process(pid, 5, "x", mapping(0x1000, 0x2000, 0, fmt.Sprintf("/file%d", pid))), 10)
		s.Exit(pid, 20)
	}
	s.Replace(process(1, 6, "y", mapping(0x1000, 0x2000, 0, "/new")), 30)
	s.Expire(20)
	if where(s, 1, 0x1000, 15) != "/new+0x0 late" || where(s, 1, 0x1000, 35) != "/new+0x0" || s.Space(2) != nil {
		t.Error("not forgotten, or too much")
	}
	if n := len(s.files.known); n != 1 {
		t.Errorf("%d files are left", n)
	}
	s.Expire(Forever - 1)
	if where(s, 1, 0x1000, 35) != "/new+0x0" {
		t.Error("what is still so was forgotten")
	}
}

// TestBounds: nothing grows without end.
func TestBounds(t *testing.T) {
	s := New()
	for i := range 3 * maxVersions {
		s.Replace(process(1, 5, "x", mapping(uint64(i)<<12, uint64(i+1)<<12, 0, "/a")), tracefs.Time(i))
	}
	if n := len(s.Space(1).Versions()); n > maxVersions {
		t.Errorf("%d versions", n)
	}
}

// TestAgainstModel holds changes in any order against a page table for each
// moment.
func TestAgainstModel(t *testing.T) {
	capturetest.SkipShort(t)
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := New()
		const pages, page = 32, 0x1000
		type table [pages]string // what each page is
		var now table
		var moments []table
		for t := range 600 {
			from := rnd.IntN(pages)
			to := from + 1 + rnd.IntN(pages-from)
			switch rnd.IntN(10) {
			case 0:
				s.Exec(1, "x", tracefs.Time(t))
				now = table{}
			case 1, 2:
				s.Unmap(1, uint64(from)*page, uint64(to)*page, tracefs.Time(t))
				clear(now[from:to])
			default:
				m := mapping(uint64(from)*page, uint64(to)*page, uint64(rnd.IntN(9))*page, fmt.Sprintf("/f%d", rnd.IntN(5)))
				s.Map(1, &m, tracefs.Time(t))
				for i := from; i < to; i++ {
					now[i] = fmt.Sprintf("%s+%#x", m.Name, m.Offset+uint64(i-from)*page)
				}
			}
			moments = append(moments, now)
		}
		for at := range moments {
			for i := range pages {
				addr := uint64(i) * page
				p, ok := s.Lookup(1, addr, tracefs.Time(at))
				got := ""
				if ok && !p.Late {
					got = fmt.Sprintf("%s+%#x", p.Mapping.File.Name, p.Offset)
				}
				if want := moments[at][i]; got != want {
					t.Fatalf("seed %d: page %d at %d is %q (late %v), want %q", seed, i, at, got, p.Late, want)
				}
			}
		}
	}
}

// TestConcurrent: lookups while others change all.
func TestConcurrent(t *testing.T) {
	s := New()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := tracefs.Time(1); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				pid := int(i) % 50
				switch (int(i) + g) % 5 {
				case 0:
					s.Exit(pid, i)
				case 1:
					s.Fork(pid, pid+1, i)
				case 2:
					s.Expire(i - 100)
				default:
					s.Replace(process(pid, 5, "x", mapping(0x1000, 0x2000, 0, "/a"), mapping(0x4000, 0x5000, 0, fmt.Sprint("/", i%7))), i)
				}
			}
		})
	}
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		snap := s.Snapshot()
		for pid := range 50 {
			s.Lookup(pid, 0x1000, 1)
			sp := snap.Space(pid)
			if sp == nil {
				continue
			}
			versions := sp.Versions()
			for i := range versions {
				if versions[i].From >= versions[i].To || i > 0 && versions[i-1].To > versions[i].From {
					t.Fatalf("versions overlap: %+v", versions)
				}
			}
		}
	}
	close(stop)
	wg.Wait()
}

// TestMemory measures: 1,000 processes with 100 executable mappings each take
// at most 16 MB.
func TestMemory(t *testing.T) {
	const processes, mappings, limit = 1000, 100, 16 << 20
	before := heap()
	s := New()
	p := &procmap.Process{}
	for pid := range processes {
		p.PID, p.Stat = pid+1, procmap.Stat{Comm: fmt.Sprintf("process-%d", pid%40), StartTime: uint64(pid)}
		p.Mappings = p.Mappings[:0]
		for i := range mappings {
			// Each process has its own program; libraries are shared.
			name, inode := fmt.Sprintf("/usr/lib/x86_64-linux-gnu/libsomething-%d.so.%d.1.2", i, i), uint64(i)
			if i == 0 {
				name, inode = fmt.Sprintf("/opt/program-%d/bin/program-%d", pid, pid), uint64(1000+pid)
			}
			id, _ := elfid.New(fmt.Appendf(nil, "%020d", inode))
			start := uint64(pid)<<32 + uint64(i)<<20
			p.Mappings = append(p.Mappings, procmap.Mapping{Start: start, End: start + 0x8000, Offset: 0x1000, Name: name, Inode: inode,
				Dev: procmap.Dev{Major: 8}, BuildID: id, Perms: procmap.Read | procmap.Exec})
		}
		s.Replace(p, tracefs.Time(pid))
	}
	p = nil
	used := heap() - before
	t.Logf("%d processes with %d mappings: %.1f MB, %d files", processes, mappings, float64(used)/(1<<20), len(s.files.known))
	if used > limit {
		t.Errorf("%d bytes are used, at most %d wanted", used, limit)
	}
	// A refresh in which nothing changed must not add to that.
	runtime.KeepAlive(s)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkLookup(b *testing.B) {
	s := New()
	var ms []procmap.Mapping
	for i := range uint64(100) {
		ms = append(ms, mapping(i<<16, i<<16+0x8000, 0, fmt.Sprint("/lib", i)))
	}
	for pid := range 1000 {
		s.Replace(process(pid, 5, "x", ms...), 10)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ok := s.Lookup(i%1000, uint64(i%100)<<16+0x100, 20); !ok {
			b.Fatal("not found")
		}
	}
}
