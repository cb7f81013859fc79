package live

import (
	"strings"
	"sync"
	"time"

	"ustack/filemap/anoncode"
	"ustack/filemap/procmap"
	"ustack/filemap/rawstack"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/filemap/timeline"
	"ustack/tracefs"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
	"ustack/tracefs/raw"
)

// bandFollower follows by the side band of perf. Three goroutines use it: one
// reads records, one attributes them, one empties rings that fill.
type bandFollower struct {
	code *procmap.Reader
	idle func() bool

	mu      sync.Mutex
	band    *sideband.Band // nil when closed
	history *sideband.History
	missing uint64       // lost records
	unseen  uint64       // of tracepoints
	came    int          // CPUs that went online
	left    int          // and offline
	until   tracefs.Time // all that happened before is known
	rights  []int        // processes that got other rights, until they are taken
	wake    func()       // is called if there are such, unless nil

	refresh time.Time // when all processes may be read again
}

// startBand opens the side band and reads all processes once; from then on perf
// reports changes. The log, if not nil, gets all changes. own lists threads, see
// sideband.Options.Threads.
func startBand(root *instance.Root, fl *following, saved *saver, opt *timeline.Options, own func() ([]int, error)) (*bandFollower, error) {
	// It is 0 if the kernel has no such event (CONFIG_EVENT_TRACING).
	executed, _ := root.ID(instance.Event{System: "sched", Name: "sched_process_exec"})
	options := sideband.Options{Clock: Clock, ExecEvent: executed, Tracepoints: sideband.Tracepoints(root),
		Watcher: fl.files, Written: fl.written, Forget: fl.ids.Forget, Proof: fl.began, Threads: own}
	switch {
	case saved != nil:
		options.Log, options.Trace = saved.spaces, saved.id
	case fl.pages != nil:
		options.Log, options.Trace = fl.pages.Log(), fl.pages.ID()
	}
	if vdso, err := anoncode.OwnVDSO(); err == nil {
		options.VDSO = vdso.ID()
	}
	band, err := sideband.Open(opt.Spaces, options)
	if err != nil {
		return nil, err
	}
	gaps, unsure := band.History.Gaps, band.History.Unsure
	opt.Threads, opt.Doubtful, opt.Gap = band.History.Threads, gaps.Around, gaps.Between
	opt.Unsure, opt.Unseen, opt.Lost, opt.Missing = unsure.Doubtful, unsure.Between, unsure.Lost, unsure.Missing
	opt.Stacks = band.History.Stacks
	_, err = band.Refresh(fl.code)
	b := &bandFollower{code: fl.code, idle: fl.idle, band: band, history: band.History}
	go b.keepUp()
	return b, err
}

const (
	// pollAgain is how often it looks for new CPUs, and for the end.
	pollAgain = time.Second
	// pollPause bounds how often the rings are polled.
	pollPause = 10 * time.Millisecond
)

// keepUp empties the rings when they fill while the trace has no records:
// what the whole machine does goes into them, however little is traced.
func (b *bandFollower) keepUp() {
	for {
		fds := b.fds()
		if fds == nil || perf.Poll(fds, pollAgain) != nil || b.settle() != nil {
			return // the reader of the trace gets the error too
		}
		if b.idle() {
			b.reached(space.Monotonic())
		}
		time.Sleep(pollPause)
	}
}

// fds returns the descriptors to poll, nil at the end.
func (b *bandFollower) fds() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band == nil {
		return nil
	}
	return b.band.FDs()
}

func (b *bandFollower) settle() error {
	rights, err := b.drain()
	b.otherRights(rights)
	return err
}

// drain brings the history up to date, and returns processes that got other rights.
func (b *bandFollower) drain() (rights []int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band == nil {
		return nil, nil
	}
	d, err := b.band.Drain()
	b.missing += d.Lost
	b.unseen += d.Unseen
	b.came, b.left = b.came+d.Came, b.left+d.Left
	b.until = d.Until
	if err == nil && (d.Doubt || d.Unsure) && time.Now().After(b.refresh) {
		began := time.Now()
		_, err = b.band.Refresh(b.code)
		b.refresh = time.Now().Add(max(refreshEvery, refreshCost*time.Since(began)))
	}
	return d.OtherRights, err
}

// settled implements follower.
func (b *bandFollower) settled(t tracefs.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t < b.until
}

// refreshEvery is how often all processes are read again when records keep
// getting lost. The trace is not read meanwhile, so it may take 1/refreshCost of
// all time.
const refreshEvery, refreshCost = time.Second, 10

func (b *bandFollower) reread(pid int, after tracefs.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band == nil {
		return nil
	}
	return b.band.Read(b.code, pid, after)
}

func (b *bandFollower) found(pid int, m *procmap.Mapping, t, after tracefs.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band != nil {
		b.band.Found(pid, m, t, after)
	}
}

// layout notes in the log what a process had of its programs and libraries.
func (b *bandFollower) layout(pid int, list []procmap.Mapping, t tracefs.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band != nil {
		b.history.Layout(pid, list, t)
	}
}

// complete writes the log out, with the time up to which it has all changes.
func (b *bandFollower) complete() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band == nil {
		return nil
	}
	return b.history.Complete(b.until)
}

func (b *bandFollower) stack(s *raw.Stack) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history.Stack(int(s.TID), s.Time, s.Addrs)
}

func (b *bandFollower) loseStacks(l raw.Loss) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history.LoseStacks(l.Records, l.From, l.To)
}

func (b *bandFollower) stackCounts() rawstack.Counts { return b.history.Stacks.Counts() }

func (b *bandFollower) reached(t tracefs.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band != nil {
		b.band.Reached(t)
	}
	b.history.Stacks.Reached(t)
}

// comm returns how a thread was called, until when at least, see sideband.Band.
func (b *bandFollower) comm(tid int, t tracefs.Time) (comm string, until tracefs.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band == nil {
		return "", t + 1, false
	}
	return b.band.Comm(b.code, tid, t)
}

// words returns how mappings are followed.
func (b *bandFollower) words() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.band != nil && b.band.Own():
		return sideband.Name + " of the traced processes (files are late: what others do cannot be seen, nor " + strings.Join(b.band.Unseen(), ", ") + ")"
	case b.band == nil || len(b.band.Unseen()) == 0:
		return sideband.Name
	}
	return sideband.Name + " (files are late: " + strings.Join(b.band.Unseen(), ", ") + " cannot be seen)"
}

// report prints the losses besides perf's records.
func (b *bandFollower) report(say func(string, ...any)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.came+b.left > 0 {
		say("CPUs came online %d times and went offline %d times: until that was followed, frames resolve only if the mapping existed before and after", b.came, b.left)
	}
	if b.unseen > 0 {
		say("lost %d records of munmap, mmap and mremap: until all processes were read again, frames resolve only if the mapping existed before and after, and not where records are missing", b.unseen)
	}
}

// lives are the lives of threads, as perf reports them. It implements
// starts.Lives.
type lives struct {
	band    *bandFollower
	history *sideband.History
}

// Life implements starts.Lives.
func (l *lives) Life(tid int, t tracefs.Time) (born, ended tracefs.Time, ok bool) {
	born, ended, ok = l.history.Threads.Life(tid, t)
	return born, ended, ok && !l.history.Gaps.Since(born)
}

// Settle implements starts.Lives.
func (l *lives) Settle() error { return l.band.settle() }

func (b *bandFollower) lost() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.missing
}

func (b *bandFollower) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.band == nil {
		return nil
	}
	err := b.band.Close()
	b.band = nil
	return err
}
