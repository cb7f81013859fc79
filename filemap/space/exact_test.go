package space

import (
	"fmt"
	"testing"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
)

// TestExact: what is known to have come at a time was not there before.
func TestExact(t *testing.T) {
	a, b, c := mapping(0x1000, 0x2000, 0, "/a"), mapping(0x3000, 0x4000, 0, "/b"), mapping(0x3000, 0x5000, 0, "/c")
	s := New()
	s.Replace(process(1, 5, "x", a), 10)
	s.MapExact(1, &b, 20)
	check(t, s, 1, []lookup{{0x3000, 19, ""}, {0x3000, 20, "/b+0x0"}, {0x1000, 5, "/a+0x0 late"}})
	s.MapExact(1, &c, 30)
	check(t, s, 1, []lookup{{0x3000, 19, ""}, {0x3000, 29, "/b+0x0"}, {0x4000, 29, ""}, {0x4000, 30, "/c+0x1000"}, {0x3000, 30, "/c+0x0"}})
	s.Fork(1, 2, 40)
	check(t, s, 2, []lookup{{0x1000, 39, ""}, {0x1000, 40, "/a+0x0"}})
	s.Exec(2, "y", 50)
	s.MapExact(2, &b, 51)
	check(t, s, 2, []lookup{{0x1000, 49, "/a+0x0"}, {0x3000, 49, "/c+0x0"}, {0x3000, 50, ""}, {0x3000, 51, "/b+0x0"}})
	// A process of which only this is known.
	s.MapExact(3, &b, 60)
	check(t, s, 3, []lookup{{0x3000, 59, ""}, {0x3000, 60, "/b+0x0"}})
	// A reading that finds the same leaves the time.
	s.Replace(process(3, 9, "z", a, b), 70)
	check(t, s, 3, []lookup{{0x3000, 59, ""}, {0x3000, 60, "/b+0x0"}, {0x1000, 65, "/a+0x0 late"}})
	s.Unmap(3, 0x3800, 0x4000, 80)
	check(t, s, 3, []lookup{{0x3000, 59, ""}, {0x37ff, 80, "/b+0x7ff"}, {0x3800, 80, ""}})
}

// TestSaidAgain: memory that is made executable again and again is one mapping.
func TestSaidAgain(t *testing.T) {
	a, part, jit := mapping(0x1000, 0x5000, 0x1000, "/a"), mapping(0x2000, 0x3000, 0x2000, "/a"), procmap.Mapping{Start: 0x8000, End: 0xa000, Kind: procmap.Anonymous}
	half, other := jit, mapping(0x2000, 0x3000, 0x3000, "/a")
	half.Start = 0x9000
	s := New()
	s.MapExact(1, &a, 10)
	s.MapExact(1, &jit, 11)
	before := s.Space(1)
	for i := range 10 {
		s.MapExact(1, &part, Forever/2)
		s.MapExact(1, &half, 20)
		s.MapExact(1, &jit, 11)
		if s.Space(1) != before {
			t.Fatalf("round %d makes %+v", i, s.Space(1).Versions())
		}
	}
	s.MapExact(1, &other, 30)
	check(t, s, 1, []lookup{{0x2000, 29, "/a+0x2000"}, {0x2000, 30, "/a+0x3000"}, {0x3000, 30, "/a+0x3000"}})
	// What a reading found came earlier, it turns out.
	s.Replace(process(2, 5, "x"), 10)
	s.Replace(process(2, 5, "x", a), 50)
	check(t, s, 2, []lookup{{0x1000, 45, "/a+0x1000 late"}})
	s.MapExact(2, &a, 40)
	check(t, s, 2, []lookup{{0x1000, 39, ""}, {0x1000, 45, "/a+0x1000"}, {0x1000, 55, "/a+0x1000"}})
}

// TestUnite: a reading has more of a mapping than the kernel's record, but not the
// name at that time.
func TestUnite(t *testing.T) {
	id, _ := elfid.New([]byte("identity"))
	other, _ := elfid.New([]byte("other"))
	dev := procmap.Dev{Major: 8}
	for name, c := range map[string]struct {
		record, read procmap.Mapping
		want         File // nil name: it is another file
	}{
		"device and inode": {
			procmap.Mapping{Name: "/a", BuildID: id}, procmap.Mapping{Name: "/a", BuildID: id, Dev: dev, Inode: 5, Generation: 2},
			File{Name: "/a", BuildID: id, Dev: dev, Inode: 5, Generation: 2},
		},
		"build ID": {
			procmap.Mapping{Name: "/a", Dev: dev, Inode: 5}, procmap.Mapping{Name: "/a", BuildID: id, Dev: dev, Inode: 5, Generation: 2},
			File{Name: "/a", BuildID: id, Dev: dev, Inode: 5, Generation: 2},
		},
		"chroot": {
			procmap.Mapping{Name: "/a", BuildID: id}, procmap.Mapping{Name: "/jail/a", BuildID: id, Dev: dev, Inode: 5},
			File{Name: "/a", BuildID: id, Dev: dev, Inode: 5},
		},
		"deleted": {
			procmap.Mapping{Name: "/a", BuildID: id}, procmap.Mapping{Name: "/a (deleted)", Kind: procmap.Deleted},
			File{Name: "/a", BuildID: id},
		},
		"name of memory": {
			procmap.Mapping{Kind: procmap.Anonymous}, procmap.Mapping{Name: "[anon:jit]", Kind: procmap.AnonNamed},
			File{Name: "[anon:jit]", Kind: procmap.AnonNamed},
		},
		"name of shared memory": {
			procmap.Mapping{Name: "/dev/zero (deleted)", Kind: procmap.SharedAnon}, procmap.Mapping{Name: "[anon_shmem:jit]", Kind: procmap.AnonShmem},
			File{Name: "[anon_shmem:jit]", Kind: procmap.AnonShmem},
		},
		"other build ID":  {record: procmap.Mapping{Name: "/a", BuildID: id}, read: procmap.Mapping{Name: "/a", BuildID: other, Dev: dev, Inode: 5}},
		"other inode":     {record: procmap.Mapping{Name: "/a", Dev: dev, Inode: 4}, read: procmap.Mapping{Name: "/a", BuildID: id, Dev: dev, Inode: 5}},
		"other device":    {record: procmap.Mapping{Name: "/a", Inode: 5}, read: procmap.Mapping{Name: "/a", BuildID: id, Dev: dev, Inode: 5}},
		"other name":      {record: procmap.Mapping{Name: "/a", BuildID: id}, read: procmap.Mapping{Name: "/b", Dev: dev, Inode: 5}},
		"memory, no file": {record: procmap.Mapping{Name: "/a", BuildID: id}, read: procmap.Mapping{Kind: procmap.Anonymous}},
		"a file, not JIT": {record: procmap.Mapping{Kind: procmap.Anonymous}, read: procmap.Mapping{Name: "/a", Dev: dev, Inode: 5}},
		"vDSO, not stack": {record: procmap.Mapping{Name: "[vdso]", Kind: procmap.VDSO}, read: procmap.Mapping{Name: "[stack]", Kind: procmap.Stack}},
	} {
		c.record.Start, c.record.End, c.read.Start, c.read.End = 0x1000, 0x2000, 0x1000, 0x2000
		s := New()
		s.MapExact(1, &c.record, 10)
		if !s.Replace(process(1, 5, "x", c.read), 20) {
			t.Errorf("%s: the reading is no news", name)
		}
		if s.Replace(process(1, 5, "x", c.read), 30) {
			t.Errorf("%s: the same reading is news", name)
		}
		m := s.Space(1).last().Mappings.first()
		same := c.want != File{}
		if !same {
			c.want = fileOf(&c.read)
		}
		if *m.File != c.want || m.Exact != same || (m.Since == 10) != same {
			t.Errorf("%s: %+v since %d, exact %v", name, *m.File, m.Since, m.Exact)
		}
	}
}

// TestUnder: a reading of a process that did not hold still.
func TestUnder(t *testing.T) {
	a, b, c := mapping(0x1000, 0x3000, 0, "/a"), mapping(0x2000, 0x4000, 0, "/b"), mapping(0x8000, 0x9000, 0, "/c")
	s := New()
	if !s.ReplaceUnder(process(1, 5, "x", a), 10, 0) || where(s, 1, 0x1000, 10) != "/a+0x0" {
		t.Error("an unknown process stays unknown")
	}
	s.MapExact(2, &b, 20)
	if s.Replace(process(2, 5, "x", a, c), 15) {
		t.Error("an old reading takes the place of a newer change")
	}
	if !s.ReplaceUnder(process(2, 5, "x", a, c), 15, 0) || s.ReplaceUnder(process(2, 5, "x", a, c), 15, 0) {
		t.Error("the reading is no news, or twice")
	}
	check(t, s, 2, []lookup{{0x2000, 25, "/b+0x0"}, {0x1000, 25, "/a+0x0"}, {0x8000, 25, "/c+0x0"}, {0x8000, 14, "/c+0x0 late"}})
	if v := s.Space(2).last(); v.StartTime != 5 || v.Comm != "x" {
		t.Errorf("%+v", v)
	}
	// What the reading does not show is gone, but for what came after it.
	s.Replace(process(3, 5, "x", a, c), 10)
	s.MapExact(3, &b, 20)
	s.MapExact(3, &c, 21)
	if !s.ReplaceUnder(process(3, 5, "x"), 15, 0) {
		t.Error("the reading is no news")
	}
	check(t, s, 3, []lookup{{0x1000, 14, "/a+0x0"}, {0x1000, 25, ""}, {0x2000, 25, "/b+0x0"}, {0x8000, 14, "/c+0x0"}})
	s.Replace(process(4, 5, "x", a), 10)
	s.MapExact(4, &c, 20)
	s.ReplaceUnder(process(4, 5, "x"), 15, 0)
	check(t, s, 4, []lookup{{0x1000, 14, "/a+0x0"}, {0x1000, 15, ""}, {0x8000, 19, ""}, {0x8000, 20, "/c+0x0"}})
	for what, change := range map[string]func(pid int){
		"exec": func(pid int) { s.Exec(pid, "y", 30) },
		"fork": func(pid int) { s.Fork(2, pid, 30) },
		"exit": func(pid int) { s.Exit(pid, 30) },
	} {
		pid := 10 + len(what)
		s.MapExact(pid, &b, 20)
		change(pid)
		if s.ReplaceUnder(process(pid, 5, "x", c), 25, 0) {
			t.Errorf("a reading from before an %s counts", what)
		}
	}
}

// TestAnswerTooLate: a reading of a process is noted after what took the place of
// its mappings.
func TestAnswerTooLate(t *testing.T) {
	a, jit := mapping(0x1000, 0x2000, 0, "/a"), procmap.Mapping{Start: 0x4000, End: 0x5000, Kind: procmap.Anonymous, Name: "jit"}
	found := procmap.Mapping{Start: 0x3000, End: 0x8000, Kind: procmap.Anonymous, Name: "found"}
	s := New()
	s.Replace(process(1, 5, "x", a), 10)
	s.MapExact(1, &jit, 110)
	s.Map(1, &found, 100)
	check(t, s, 1, []lookup{{0x3000, 120, "found+0x0"}, {0x4000, 120, "jit+0x0"}, {0x5000, 120, "found+0x2000"}, {0x1000, 120, "/a+0x0"},
		{0x4000, 105, ""}, {0x4000, 110, "jit+0x0"}, {0x3000, 99, "found+0x0 late"}})
}

func TestComm(t *testing.T) {
	s := New()
	s.Comm(1, "name", 5)
	s.Fork(9, 1, 10)
	s.Comm(1, "first", 20)
	s.Exec(1, "second", 30)
	s.Comm(1, "third", 40)
	before := s.Space(1)
	s.Comm(1, "third", 50)
	if s.Space(1) != before {
		t.Error("the same name is news")
	}
	s.Comm(1, "late", 25)
	var comms []string
	for _, v := range s.Space(1).Versions() {
		comms = append(comms, v.Comm)
	}
	if got := fmt.Sprint(comms); got != "[late third]" {
		t.Error(got)
	}
	if v := s.Space(77).Versions(); v != nil {
		t.Errorf("the unnamed process has %+v", v)
	}
}
