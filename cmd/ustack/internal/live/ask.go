package live

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"ustack/filemap/procmap"
	"ustack/filemap/rawstack"
	"ustack/filemap/space"
	"ustack/filemap/tasks"
	"ustack/filemap/timeline"
	"ustack/tracefs"
	"ustack/tracefs/input"
	"ustack/tracefs/instance"
	"ustack/tracefs/raw"
)

// askFollower follows by events of the scheduler, in a separate instance, and by
// reading processes.
type askFollower struct {
	tasks *tasks.Tasks
	in    *instance.Instance
	pipe  *instance.Pipe
	trace *input.Trace
	idle  func() bool
	// stacks are raw ones, nil if they are not used.
	stacks *rawstack.Stacks

	mu      sync.Mutex // guards what follows, and the trace
	batch   tracefs.Batch
	begun   bool // the end of the last record has not been seen
	missing uint64

	end  sync.Once
	done chan struct{}
}

// startAsking switches the events on and reads all processes.
func startAsking(code *procmap.Reader, root *instance.Root, idle func() bool, opt *timeline.Options) (*askFollower, error) {
	a := &askFollower{tasks: tasks.New(opt.Spaces, code, space.Monotonic), idle: idle, done: make(chan struct{})}
	a.stacks = rawstack.New(rawstack.MaxStacks)
	opt.Threads, opt.Late, opt.Stacks = a.tasks, true, a.stacks
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
	if a.pipe, err = a.in.Pipe(); err != nil {
		return a, err
	}
	file := input.Live(a.pipe.Name(), a.pipe)
	a.trace = input.NewTrace([]*input.File{file}, input.Options{Events: true, Pause: time.Millisecond, NoTemplates: true})
	if err := a.in.Start(); err != nil {
		return a, err
	}
	err = a.tasks.Refresh()
	go a.keepUp()
	return a, err
}

// askAgain is how soon a process that has changed is read, whether or not it is
// traced meanwhile.
const askAgain = 100 * time.Millisecond

// keepUp settles while the trace has no records: the sooner a process is read,
// the more of it is known.
func (a *askFollower) keepUp() {
	for {
		select {
		case <-a.done:
			return
		case <-time.After(askAgain):
		}
		if a.settle() != nil {
			return // the reader of the trace gets the error too
		}
		if a.idle() {
			a.reached(space.Monotonic())
		}
	}
}

func (a *askFollower) settle() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks.Settle(a.drain)
}

// settled implements follower. The mappings of processes are read, not reported.
func (a *askFollower) settled(tracefs.Time) bool { return false }

// drain takes the events that have come.
func (a *askFollower) drain() error {
	for {
		ready, err := a.pipe.Wait(0)
		if err != nil || !ready && !a.begun {
			return ignoreEnd(err)
		}
		err = a.trace.Next(&a.batch)
		a.begun = !a.batch.Paused
		a.tasks.Record(&a.batch)
		for i := range a.batch.Records {
			if r := &a.batch.Records[i]; r.Kind == tracefs.KindLost {
				a.missing += max(r.Value, 1)
			}
		}
		if err != nil {
			return ignoreEnd(err)
		}
	}
}

// ignoreEnd leaves out that the pipe was closed, which only we do.
func ignoreEnd(err error) error {
	if err == io.EOF || errors.Is(err, os.ErrClosed) || errors.Is(err, instance.ErrRemoved) {
		return nil
	}
	return err
}

func (a *askFollower) reread(pid int, _ tracefs.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks.Reread(pid, a.drain)
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

func (a *askFollower) close() error {
	a.end.Do(func() { close(a.done) })
	return a.in.Remove()
}
