package sideband

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestRecordedKin: what a process maps over code may be in the memory of others, too, until they
// execute a program: where these have other code, it is unknown. Each step is a minute later.
func TestRecordedKin(t *testing.T) {
	const minute = tracefs.Time(60e9)
	fork := func(parent, child int) *perf.Record {
		return &perf.Record{Type: unix.PERF_RECORD_FORK, PID: child, TID: child, ParentPID: parent, ParentTID: parent}
	}
	maps := func(pid int, at uint64, name string) *perf.Record { return recordedMap(pid, at, 0x2000, name, 0) }
	exec := func(pid int) *perf.Record {
		return &perf.Record{Type: unix.PERF_RECORD_COMM, Misc: unix.PERF_RECORD_MISC_COMM_EXEC, PID: pid, TID: pid, Name: []byte("x")}
	}
	exit := func(pid int) *perf.Record { return &perf.Record{Type: unix.PERF_RECORD_EXIT, PID: pid, TID: pid} }
	for _, c := range []struct {
		name  string
		steps []*perf.Record
		pid   int
		want  string // where 10 has mapped /bin/a in the first minute
	}{
		{"a child maps over it", []*perf.Record{fork(10, 11), maps(11, 0x11000, "/b")}, 10, ""},
		{"the child has it", []*perf.Record{fork(10, 11), maps(11, 0x11000, "/b")}, 11, "/b"},
		{"the parent does", []*perf.Record{fork(10, 11), maps(10, 0x11000, "/b")}, 11, ""},
		{"beside it", []*perf.Record{fork(10, 11), maps(11, 0x12000, "/b")}, 10, "/bin/a"},
		{"the same again", []*perf.Record{fork(10, 11), maps(11, 0x10000, "/bin/a")}, 10, "/bin/a"},
		{"and then the parent", []*perf.Record{fork(10, 11), maps(11, 0x11000, "/b"), maps(10, 0x11000, "/c")}, 10, "/c"},
		{"data", []*perf.Record{fork(10, 11), {Type: unix.PERF_RECORD_MMAP2, PID: 11, TID: 11, Addr: 0x11000, Len: 0x1000, Prot: unix.PROT_READ, Name: []byte("/b")}}, 10, "/bin/a"},
		{"after an exec of the child", []*perf.Record{fork(10, 11), exec(11), maps(11, 0x11000, "/b")}, 10, "/bin/a"},
		{"after the end of the child, of another one", []*perf.Record{fork(10, 11), exit(11), fork(20, 11), maps(11, 0x11000, "/b")}, 10, "/bin/a"},
		{"a grandchild", []*perf.Record{fork(10, 11), fork(11, 12), maps(12, 0x11000, "/b")}, 10, ""},
		{"a grandchild without a parent", []*perf.Record{fork(10, 11), fork(11, 12), exit(11), maps(12, 0x11000, "/b")}, 10, ""},
		{"a sibling, what both have of the parent", []*perf.Record{fork(10, 11), fork(10, 12), maps(12, 0x11000, "/b")}, 11, ""},
		{"a sibling, if the parent has ended", []*perf.Record{fork(10, 11), fork(10, 12), exit(10), maps(12, 0x11000, "/b")}, 11, ""},
		{"a sibling, what it has mapped itself", []*perf.Record{fork(10, 11), fork(10, 12), maps(11, 0x11000, "/c"), maps(12, 0x11000, "/b")}, 11, "/c"},
		{"the parent, what the child has mapped", []*perf.Record{fork(10, 11), maps(11, 0x11000, "/c"), maps(10, 0x11000, "/b")}, 11, ""},
	} {
		r := NewRecorded(space.New(), "perf")
		var changed []int
		r.Changed = func(pid int, _ tracefs.Time) { changed = append(changed, pid) }
		r.Add(&perf.Record{Type: unix.PERF_RECORD_COMM, PID: 10, TID: 10, Name: []byte("a")})
		r.Add(maps(10, 0x10000, "/bin/a"))
		for i, rec := range c.steps {
			rec.Time = minute * tracefs.Time(i+1)
			r.Add(rec)
		}
		end := minute * tracefs.Time(len(c.steps))
		p, ok := r.History.Lookup(c.pid, 0x11100, end)
		got := ""
		if ok {
			got = p.Mapping.File.Name
		}
		if got != c.want || !slices.Contains(changed, c.pid) && c.want == "" {
			t.Errorf("%s: process %d has %q, want %q; changed: %v", c.name, c.pid, got, c.want, changed)
		}
		if p, ok := r.History.Lookup(10, 0x11100, minute/2); !ok || p.Mapping.File.Name != "/bin/a" {
			t.Errorf("%s: before it, %+v, %v", c.name, p, ok)
		}
	}
}

// TestKin: the trees have the processes that have come of one another, whatever came and went,
// and nothing stays of those that are alone.
func TestKin(t *testing.T) {
	const pids = 30
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		k := kin{most: maxLooked}
		group := make(map[int]int) // the tree of each process, as one number
		for step := range 300 {
			pid := 1 + rng.IntN(pids)
			if other := 1 + rng.IntN(pids); rng.IntN(3) > 0 && other != pid {
				if group[pid] == 0 {
					group[pid] = 1000 + step
				}
				group[other] = group[pid]
				if !k.forked(pid, other, tracefs.Time(step)) {
					t.Fatal("no room")
				}
			} else {
				delete(group, pid)
				k.leave(pid)
			}
			for pid := 1; pid <= pids; pid++ {
				var want, got []int
				for other := 1; other <= pids; other++ {
					if other != pid && group[pid] > 0 && group[other] == group[pid] {
						want = append(want, other)
					}
				}
				if !k.each(pid, func(pid int, _ tracefs.Time) { got = append(got, pid) }) {
					t.Fatal("too much")
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: with %d: %v, want %v", seed, step, pid, got, want)
				}
			}
		}
		for pid := 1; pid <= pids; pid++ {
			k.leave(pid)
		}
		if len(k.of) != 0 {
			t.Fatalf("seed %d: %d are left", seed, len(k.of))
		}
	}
}

// TestKinTooMany: where not all processes can be looked at, files are in doubt from then on.
func TestKinTooMany(t *testing.T) {
	r := NewRecorded(space.New(), "perf")
	r.kin.most = 10
	for child := 11; child < 20; child++ {
		r.Add(&perf.Record{Type: unix.PERF_RECORD_FORK, PID: child, TID: child, ParentPID: 10, ParentTID: 10, Time: 5})
	}
	for i, want := range []bool{false, true} {
		at := tracefs.Time(10 + i)
		r.Add(recordedMap(11, 0x1000, 0x1000, fmt.Sprint("/", i), at))
		if until, missed := r.Missed(at); missed != want || want && until != space.Forever {
			t.Errorf("at %d: until %d, %v, want %v", at, until, missed, want)
		}
	}
}

// TestKinMappings: mappings that are looked at count, too: a process can have any number of them.
func TestKinMappings(t *testing.T) {
	r := NewRecorded(space.New(), "perf")
	r.kin.most = 10
	r.Add(&perf.Record{Type: unix.PERF_RECORD_FORK, PID: 11, TID: 11, ParentPID: 10, ParentTID: 10, Time: 5})
	for page := range uint64(10) {
		r.Add(recordedMap(10, page<<12, 0x1000, fmt.Sprint("/", page), 6))
	}
	if _, missed := r.Missed(20); missed { // 10 times one process
		t.Error("all were looked at")
	}
	r.kin.looked = 0
	r.Add(recordedMap(11, 0, 10<<12, "/over", 21))
	if until, missed := r.Missed(21); !missed || until != space.Forever {
		t.Errorf("until %d, %v", until, missed)
	}
}

// TestKinNumbers: numbers that no process has are in no tree.
func TestKinNumbers(t *testing.T) {
	k := kin{most: maxLooked}
	for _, c := range [][2]int{{0, 5}, {5, 0}, {-1, 5}, {5, -1}, {5, 5}} {
		if !k.forked(c[0], c[1], 1) || len(k.of) > 0 {
			t.Errorf("%v: %v", c, k.of)
		}
	}
}
