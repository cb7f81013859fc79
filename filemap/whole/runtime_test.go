package whole

import (
	"errors"
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
	"ustack/filemap/space"
	"ustack/filemap/unwind"
	"ustack/tracefs"
)

// TestMachines: a process that may have a virtual machine is looked at now and then, less and
// less often if none is known, and anew once it runs another program; few are kept.
func TestMachines(t *testing.T) {
	now, opened := tracefs.Time(1e9), 0
	spaces := space.New()
	load := func(pid int, at tracefs.Time, name string) *space.Space {
		p := procmap.Process{PID: pid, Mappings: []procmap.Mapping{{Start: 0x10000, End: 0x20000, Perms: procmap.Read | procmap.Exec, Name: name, Inode: 9, Kind: procmap.File}}}
		spaces.Replace(&p, at)
		return spaces.Space(pid)
	}
	s := New(Options{
		Memory: procmem.New(0), Now: func() tracefs.Time { return now },
		Open: func(int, *space.Mapping) (*unwind.Binary, error) {
			opened++
			return nil, errors.New("it cannot be opened")
		},
	})
	defer s.Close()
	java, other := load(1, now, "/usr/lib/jvm/libjvm.so"), load(2, now, "/bin/true")
	if p := s.runtimes.process(runsOf(2, other, now)); p == nil || p.java || opened != 0 || s.runtimes.Java().Unknown != nil {
		t.Fatalf("a process without a virtual machine: opened %d, %v", opened, s.runtimes.Java().Unknown)
	}
	const step, steps = tracefs.Time(50e6), 200 // 10 s
	for range steps {
		if s.runtimes.At(runsOf(1, java, now), now, now) != nil {
			t.Fatal("a virtual machine that cannot be read")
		}
		now += step
	}
	if opened < 3 || opened > 8 || s.runtimes.Java().Unknown == nil {
		t.Errorf("opened %d times in 10 s, %v", opened, s.runtimes.Java().Unknown)
	}
	for pid := 10; pid < 10+2*maxMachines; pid++ {
		s.runtimes.At(runsOf(pid, other, now), now, now)
	}
	if n := len(s.runtimes.of); n != maxMachines {
		t.Errorf("%d processes are kept", n)
	}
}
