package timeline

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// probing is a Prober of this very process, with what it did.
type probing struct {
	*Prober
	spaces  *space.Spaces
	now     tracefs.Time
	reread  int
	settled func()
}

func newProbing(t *testing.T) *probing {
	t.Helper()
	r, err := procmap.NewReader(procmap.Options{Stat: true})
	if err != nil {
		t.Skipf("no /proc to read: %v", err)
	}
	p := &probing{spaces: space.New(), now: 5e9}
	p.Prober = NewProber(ProberOptions{
		Reader: r, Spaces: p.spaces, Clock: func() tracefs.Time { return p.now },
		Elapsed: func() time.Duration { return time.Duration(p.now) },
		Settle: func() error {
			if p.settled != nil {
				p.settled()
			}
			return nil
		},
		Reread: func(pid int, _ tracefs.Time) error {
			p.reread++
			var q procmap.Process
			return p.spaces.RefreshProcess(r, pid, &q, p.now)
		},
		Found: func(pid int, m *procmap.Mapping, at, after tracefs.Time) { p.spaces.MapAfter(pid, m, at, after) },
	})
	return p
}

// page is a page of our own memory.
func page(t *testing.T, prot int) uint64 {
	t.Helper()
	addr, err := unix.MmapPtr(-1, 0, nil, 4096, prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.MunmapPtr(addr, 4096) })
	return uint64(uintptr(addr))
}

func TestProber(t *testing.T) {
	p, pid := newProbing(t), os.Getpid()
	data := page(t, unix.PROT_READ)
	if p.Ask(pid, data, p.now) {
		t.Error("it asked a process that nothing is known of")
	}
	if !p.Meet(pid, p.now) || p.reread != 1 {
		t.Errorf("it did not meet us, %d readings", p.reread)
	}
	if p.Meet(pid, p.now) {
		t.Error("it met us again")
	}
	// Memory that came later, and is no code.
	data = page(t, unix.PROT_READ|unix.PROT_WRITE)
	p.spaces.Unmap(pid, data, data+4096, p.now) // it may have been merged with a mapping known
	p.now += 1000
	if !p.Ask(pid, data, p.now) {
		t.Error("no answer about our own memory")
	}
	if at, ok := p.spaces.Lookup(pid, data, p.now); !ok || at.Mapping.File.Kind != procmap.Anonymous {
		t.Errorf("%+v, %v", at, ok)
	}
	if p.Ask(pid, data, p.now) {
		t.Error("it asked again")
	}
	// Code that was mapped without a report: all is read again.
	code := page(t, unix.PROT_READ|unix.PROT_EXEC)
	p.spaces.Unmap(pid, code, code+4096, p.now)
	if !p.Ask(pid, code, p.now) || p.reread != 2 {
		t.Errorf("no answer about our own code, %d readings", p.reread)
	}
	if n := p.Counts(); n.Asked < 3 || n.Found < 3 || n.Refused != 0 {
		t.Errorf("counts %+v", n)
	}
}

// TestProberOfAnother: the answer is of the program that runs now. If that is
// not the one of the stack, it is no answer.
func TestProberOfAnother(t *testing.T) {
	p, pid := newProbing(t), os.Getpid()
	p.Meet(pid, p.now)
	data := page(t, unix.PROT_READ)
	p.spaces.Unmap(pid, data, data+4096, p.now)
	p.settled = func() { p.spaces.Exec(pid, "other", p.now) }
	p.now += 1000
	if p.Ask(pid, data, p.now-500) {
		t.Error("an answer of another program was taken")
	}
	if p.Ask(pid, data+1<<20, p.now-500) {
		t.Error("a program that is gone was asked")
	}
}

// TestProberBusy: garbage does not keep us busy.
func TestProberBusy(t *testing.T) {
	p, pid := newProbing(t), os.Getpid()
	p.Meet(pid, p.now)
	for i := range uint64(3 * perSecond) {
		p.Ask(pid, i<<12|1<<62, p.now)
	}
	if n := p.Counts(); n.Asked != perSecond || n.Refused != 2*perSecond+1 {
		t.Errorf("counts %+v", n)
	}
	p.now += 1e9
	p.Ask(pid, 1<<62, p.now)
	if n := p.Counts(); n.Asked != perSecond+1 {
		t.Errorf("a second later: counts %+v", n)
	}
}

// TestProberAtOnce: the first second of a trace has as many queries as the others.
func TestProberAtOnce(t *testing.T) {
	p, pid := newProbing(t), os.Getpid()
	p.now = 1000
	if !p.Meet(pid, p.now) {
		t.Error("it did not meet us in the first second")
	}
	if n := p.Counts(); n.Asked != 1 || n.Refused != 0 {
		t.Errorf("counts %+v", n)
	}
}
