package instance

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs/capturetest"
)

// TestRemoved: after Remove nothing is written any more, and Remove again does
// nothing.
func TestRemoved(t *testing.T) {
	in := create(t, fake(t, optionStock, "event-fork"))
	check(t, in.Remove())
	check(t, in.Remove())
	if in.Root().has(instances + "/" + in.Name()) {
		t.Error("it is still there")
	}
	_, stats := in.Stats()
	_, stacks := in.SetStacks(BestStacks)
	_, pipe := in.Pipe()
	_, clock := in.Clock()
	for what, err := range map[string]error{
		"Start": in.Start(), "Stop": in.Stop(), "Configure": in.Configure(Config{}), "Enable": in.Enable([]Event{{System: "a", Name: "b"}}),
		"SetPIDs": in.SetPIDs([]int{1}, false), "Stats": stats, "SetStacks": stacks, "Pipe": pipe, "Clock": clock,
	} {
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// TestRemoveBusy: who has a file open may be on the way out; else it is an
// error, all is switched off, and Remove can be called again.
func TestRemoveBusy(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel() // it is tried again for a while
	in := create(t, fake(t, optionDeferred))
	check(t, in.Configure(Config{}))
	check(t, in.deferForTest())
	check(t, in.Start())
	rmdir, calls := in.root.rmdir, 0
	in.root.rmdir = func(path string) error {
		calls++
		if calls < 5 {
			return unix.EBUSY
		}
		return rmdir(path)
	}
	check(t, in.Remove())
	if calls != 5 {
		t.Errorf("%d calls", calls)
	}

	in = create(t, fake(t, optionDeferred))
	check(t, in.Start())
	check(t, in.deferForTest())
	rmdir = in.root.rmdir
	in.root.rmdir = func(string) error { return unix.EBUSY }
	if err := in.Remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v", err)
	}
	in.is(t, "tracing_on", "0")
	in.is(t, "events/enable", "0")
	in.is(t, "options/"+optionDeferred, "0")
	in.root.rmdir = rmdir
	check(t, in.Remove())
}

// deferForTest sets the deferred option as SetStacks does.
func (i *Instance) deferForTest() error {
	_, err := i.SetOption(optionDeferred, true)
	return err
}

// TestLiveRemove: with all on, and its pipe being read, an instance goes, and
// its events are off.
func TestLiveRemove(t *testing.T) {
	r := live(t)
	in := configured(t, r)
	_, err := in.SetStacks(BestStacks)
	check(t, err)
	sel, err := r.Select(specs(t, "sched:*"))
	check(t, err)
	check(t, in.Enable(sel.Events))
	_, perr, done := background(pipe(t, in))
	check(t, in.Start())
	time.Sleep(10 * time.Millisecond)
	check(t, in.Remove())
	soon(t, "reading", done)
	if !errors.Is(*perr, os.ErrClosed) {
		t.Errorf("reading ends with %v", *perr)
	}
	names, err := r.Instances()
	if err != nil || slices.Contains(names, in.Name()) {
		t.Errorf("instances %q (%v)", names, err)
	}
	check(t, in.Remove())
}

// TestLiveRemoveAnytime: Remove comes from the goroutine of a signal, at any
// moment of the start.
func TestLiveRemoveAnytime(t *testing.T) {
	r := live(t)
	sel, err := r.Select(Defaults())
	check(t, err)
	start := func(in *Instance) error {
		if err := in.Configure(Config{}); err != nil {
			return err
		}
		if _, err := in.SetStacks(BestStacks); err != nil {
			return err
		}
		if err := in.SetPIDs([]int{os.Getpid()}, true); err != nil {
			return err
		}
		if err := in.Enable(sel.Events); err != nil {
			return err
		}
		p, err := in.Pipe()
		if err != nil {
			return err
		}
		if err := in.Start(); err != nil {
			return err
		}
		_, err = p.Read(make([]byte, 100))
		return err
	}
	for round := range 30 {
		in := create(t, r)
		var all sync.WaitGroup
		all.Go(func() {
			err := start(in)
			if !errors.Is(err, ErrRemoved) && !errors.Is(err, os.ErrClosed) && err != nil {
				t.Errorf("starting: %v", err)
			}
		})
		for range 2 {
			all.Go(func() {
				time.Sleep(time.Duration(round) * 300 * time.Microsecond)
				if err := in.Remove(); err != nil {
					t.Errorf("removing: %v", err)
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		soon(t, "all of it", done)
		if r.has(instances + "/" + in.Name()) {
			t.Fatalf("round %d: %s is still there", round, in.Name())
		}
	}
}
