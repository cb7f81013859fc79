package live

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/rawstack"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/filemap/tasks"
	"ustack/filemap/timeline"
	"ustack/tracefs"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
	"ustack/tracefs/raw"
)

// askFollower follows by tracepoints, in a separate instance, and by asking processes.
type askFollower struct {
	tasks   *tasks.Tasks
	in      *instance.Instance
	records *raw.Records
	decoder *tasks.Decoder
	idle    func() bool
	// deferred: the kernel has deferred stacks, and announces files.
	deferred bool
	// stacks are raw ones, nil if they are not used.
	stacks *rawstack.Stacks
	// renewed is how many changes there were when the kernel was asked last to announce files
	// again, and when that was: for keepUp.
	renewed   int64
	renewedAt time.Time

	mu      sync.Mutex // guards what follows, and the records
	missing uint64
	files   *sideband.Files
	drained tracefs.Time // all changes of mappings until then are known
	// checked is up to when all writes to files that are mapped are known.
	checked atomic.Int64

	end  sync.Once
	done chan struct{}
}

// startAsking switches the events on and asks all processes.
func startAsking(fl *following, root *instance.Root, opt *timeline.Options) (*askFollower, error) {
	a := &askFollower{idle: fl.idle, deferred: root.HasDeferred(), done: make(chan struct{}), stacks: rawstack.New(rawstack.MaxStacks)}
	events, err := tasks.Events(root)
	if err != nil {
		return nil, err
	}
	if a.in, err = root.Create(); err != nil {
		return nil, err
	}
	if err = errors.Join(a.in.Configure(instance.Config{Clock: Clock}), a.in.Enable(events)); err != nil {
		return a, err
	}
	if err := a.in.Start(); err != nil {
		return a, err
	}
	begun := space.Monotonic()
	records, formats, err := raw.OpenRecords(a.in, events, begun)
	if err != nil {
		return a, err
	}
	a.records = records
	if a.decoder, err = tasks.NewDecoder(formats); err != nil {
		return a, err
	}
	a.tasks = tasks.New(opt.Spaces, tasks.NewKernel(fl.code), space.Monotonic, begun)
	a.files = sideband.NewFiles(opt.Spaces, fl.code, unix.CLOCK_MONOTONIC, fl.files, fl.written, fl.ids.Forget, fl.began)
	a.tasks.Watch = a.files.Watch
	opt.Threads, opt.Late, opt.Stacks, opt.Kept = a.tasks, true, a.stacks, a.tasks.Kept
	err = a.begin()
	go a.keepUp()
	return a, err
}

// begin asks all processes, until they are known but for some that run all the time.
func (a *askFollower) begin() error {
	const tries, pause = 10, time.Millisecond
	for range tries {
		if err := a.settle(); err != nil || a.tasks.Settled(0) {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}

const (
	// askAgain is how soon a process that could not be asked is tried again.
	askAgain = 50 * time.Millisecond
	// askPause bounds how often processes are asked.
	askPause = time.Millisecond
	// announceEvery is how often the kernel may be asked to announce files again.
	announceEvery = time.Millisecond
)

// keepUp asks processes as soon as they have changed, whether or not they are traced: the
// sooner a process is asked, the more of it is known.
func (a *askFollower) keepUp() {
	for {
		select {
		case <-a.done:
			return
		default:
		}
		if fds := a.records.FDs(); fds == nil || perf.Poll(fds, askAgain) != nil || a.settle() != nil {
			return // the reader of the trace gets the error too
		}
		if a.idle() {
			a.reached(space.Monotonic())
		}
		a.renew()
		time.Sleep(askPause)
	}
}

// renew has the kernel announce all files again if others can have their identifiers now,
// and those processes may be gone before they are asked: see tasks.Kept.
func (a *askFollower) renew() {
	n, now := a.tasks.Changes(), time.Now()
	if !a.deferred || n == a.renewed || now.Sub(a.renewedAt) < announceEvery {
		return
	}
	a.renewed, a.renewedAt = n, now
	_ = a.in.Reannounce() // files that stay unannounced have a reason
}

func (a *askFollower) settle() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.tasks.Settle(a.drain)
	a.check()
	return err
}

// check takes the build IDs from files that were written.
func (a *askFollower) check() {
	now := space.Monotonic()
	a.files.Check(a.drained)
	a.checked.Store(int64(now))
}

// settled implements follower.
func (a *askFollower) settled(t tracefs.Time) bool {
	return int64(t) <= a.checked.Load() && a.tasks.Settled(t)
}

// drain takes the events that have come.
func (a *askFollower) drain() error {
	now := space.Monotonic()
	err := a.records.Drain(now, func(r *raw.Record) {
		if e, ok := a.decoder.Decode(r); ok {
			a.tasks.Add(e)
		}
	}, func(l raw.Loss) {
		a.missing += max(l.Records, 1)
		a.tasks.Lose(l.From, l.To)
	})
	if err != nil {
		return fmt.Errorf("reading what processes map: %w", err)
	}
	a.tasks.Drained(now)
	a.drained = now
	return nil
}

func (a *askFollower) reread(pid int, _ tracefs.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.tasks.Reread(pid, a.drain)
	a.check()
	return err
}

func (a *askFollower) found(pid int, m *procmap.Mapping, t, after tracefs.Time) {
	a.tasks.Found(pid, m, t, after)
}

func (a *askFollower) stack(s *raw.Stack) { a.stacks.Add(int(s.TID), s.Time, s.Addrs) }

func (a *askFollower) loseStacks(l raw.Loss) { a.stacks.Lose(l.Records, l.From, l.To) }

func (a *askFollower) stackCounts() rawstack.Counts { return a.stacks.Counts() }

func (a *askFollower) reached(t tracefs.Time) {
	a.tasks.Reached(t)
	a.stacks.Reached(t)
}

func (a *askFollower) lost() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.missing
}

// closeFiles releases the files. What is found out about a process after that has no build IDs.
func (a *askFollower) closeFiles() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files != nil {
		a.files.Close()
	}
}

func (a *askFollower) close() error {
	a.end.Do(func() { close(a.done) })
	a.closeFiles()
	var err error
	if a.records != nil {
		err = a.records.Close()
	}
	return errors.Join(err, a.in.Remove())
}
