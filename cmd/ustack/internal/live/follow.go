package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"ustack/cmd/ustack/internal/live/sources"
	"ustack/filemap"
	"ustack/filemap/anoncode"
	"ustack/filemap/bounded"
	"ustack/filemap/facts"
	"ustack/filemap/hotspot"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/rawstack"
	"ustack/filemap/resolve"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/filemap/tasks"
	"ustack/filemap/threadentry"
	"ustack/filemap/timeline"
	"ustack/filemap/watch"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/instance"
	"ustack/tracefs/pagefile"
	"ustack/tracefs/raw"
)

// following keeps the address spaces of all processes up.
type following struct {
	began *openfile.Begin // before anything was read
	follower
	attributor *timeline.Attributor
	prober     *timeline.Prober
	layouts    *timeline.Layouts
	code       *procmap.Reader // of executable mappings, to follow them
	own        *procmap.Reader // the same, to attribute stacks
	all        *procmap.Reader // of all
	threads    timeline.Threads
	spaces     *space.Spaces
	machines   *hotspot.Names // functions of Java code; nil if they are not needed
	early      *early         // nil if it is not needed
	calls      *bounded.Calls // for handles of files; made when first used
	files      *watch.Watcher // those whose build IDs are remembered
	ids        *procmap.IDs
	written    *sideband.Written
	pages      *pagefile.Capture // that gets the log, nil for none
	how        string
	idle       func() bool
	say        func(string, ...any)
}

// follower is a way to do that.
type follower interface {
	// settle brings the spaces up to date. settled reports whether they are, up to t.
	settle() error
	settled(t tracefs.Time) bool
	// reread reads all code that a process has mapped now; found notes what it
	// has at an address, memory that is no code. Answers about times before
	// after stay.
	reread(pid int, after tracefs.Time) error
	found(pid int, m *procmap.Mapping, t, after tracefs.Time)
	// reached sets the time up to which stacks have been attributed: older states
	// of processes may be forgotten.
	reached(t tracefs.Time)
	// stack notes the raw stack of an event, loseStacks that some are missing;
	// stackCounts counts them by result.
	stack(s *raw.Stack)
	loseStacks(l raw.Loss)
	stackCounts() rawstack.Counts
	// lost is how many mapping records were lost.
	lost() uint64
	// close may be called again.
	close() error
}

// startFollowing begins to follow what all processes have mapped, and reads them.
// It must come before tracing is switched on. idle reports whether all stacks until
// now have been attributed.
func startFollowing(o *Options, root *instance.Root, saved *saver, began *openfile.Begin, idle func() bool) (*following, error) {
	fl := &following{began: began, idle: idle, say: o.Reporter.Say, pages: o.Pages}
	var err error
	ids := procmap.NewIDs(nil)
	fl.ids = ids
	fl.written = new(sideband.Written)
	forget := func(id procmap.FileID) {
		ids.Forget(id)
		fl.written.Changed(id)
	}
	fl.files = watch.New(watch.Options{Forget: forget, Proc: o.Proc, Log: func(message string) { fl.say("%s", message) }})
	ids.SetGuard(fl.files)
	options := procmap.Options{Proc: o.Proc, Source: o.MapsSource, Stat: true, IDs: ids, Filter: procmap.Filter{Perms: procmap.Exec}, VDSO: true}
	if fl.code, err = procmap.NewReader(options); err != nil {
		return nil, errors.Join(err, fl.close())
	}
	if fl.own, err = procmap.NewReader(options); err != nil {
		return nil, errors.Join(err, fl.close())
	}
	options.Filter = procmap.Filter{}
	if fl.all, err = procmap.NewReader(options); err != nil {
		return nil, errors.Join(err, fl.close())
	}
	opt := timeline.Options{Spaces: space.New(), Stamp: timeline.TextStamp()}
	if err := fl.choose(o, root, saved, &opt); err != nil {
		_ = fl.close() // it would say the same again
		return nil, err
	}
	begun := time.Now()
	fl.prober = timeline.NewProber(timeline.ProberOptions{
		Reader: fl.all, Spaces: opt.Spaces, Clock: space.Monotonic, Elapsed: func() time.Duration { return time.Since(begun) },
		Settle: fl.settle, Reread: fl.reread, Found: fl.found,
	})
	opt.Querier, fl.threads, fl.spaces = fl.prober, opt.Threads, opt.Spaces
	fl.attributor = timeline.New(opt)
	layouts := timeline.LayoutOptions{
		Reader: fl.all, Clock: space.Monotonic, Settle: fl.settle,
		Early: func(pid int) ([]procmap.Mapping, tracefs.Time, bool) { return fl.early.layout(pid) },
	}
	if band, ok := fl.follower.(*bandFollower); ok && saved != nil {
		layouts.Keep = band.layout
	}
	fl.layouts = timeline.NewLayouts(fl.attributor, layouts)
	return fl, nil
}

// choose takes the side band of perf, or the way without it if we may not use
// it.
func (fl *following) choose(o *Options, root *instance.Root, saved *saver, opt *timeline.Options) error {
	if o.Mappings != MappingsQuery {
		band, err := startBand(root, fl, saved, opt, fl.ownThreads(o))
		if band != nil {
			fl.follower, fl.how = band, band.words()
		}
		if err == nil || o.Mappings == MappingsPerf || o.Source == sources.Perf || !sideband.Unavailable(err) {
			return err
		}
	}
	if o.Pages != nil {
		return errors.New("a report of pages needs the perf side band: queried mappings are not exact enough to replay")
	}
	if o.Save != "" {
		return errors.New("--save needs the perf side band: queried mappings are not exact enough to replay")
	}
	asking, err := startAsking(fl, root, opt)
	if asking != nil {
		fl.follower, fl.how = asking, tasks.Name
	}
	return err
}

// ownThreads returns a function that lists the threads to follow where perf refuses the whole
// machine, nil if all are traced or the events come from an instance. A command is started by
// a thread of this process.
func (fl *following) ownThreads(o *Options) func() ([]int, error) {
	switch {
	case o.Source != sources.Perf:
		return nil
	case len(o.Command) > 0:
		return func() ([]int, error) { return fl.threadsOf([]int{os.Getpid()}) }
	case len(o.PIDs) > 0:
		return func() ([]int, error) { return fl.family(o.PIDs) }
	}
	return nil
}

// reached sets the time up to which stacks have been attributed.
func (fl *following) reached(t tracefs.Time) {
	fl.follower.reached(t)
}

// named returns the Attributor of stacks, which also names code in no file, and the
// functions with which threads began, if names is not nil. keeper, which may be nil, gets the
// former.
func (fl *following) named(proc string, names *symbolize.Symbols, keeper *anoncode.Keeper) (resolve.Attributor, error) {
	processes, err := anoncode.NewProcesses(proc, func(p anoncode.Program) bool {
		return fl.settle() == nil && fl.attributor.Same(p.PID, p.Began, space.Monotonic())
	})
	if err != nil {
		return nil, err
	}
	opt := anoncode.Options{Inner: fl.attributor, Processes: processes, Machines: fl.machines, Keeper: keeper, Program: anoncode.ProgramOf(fl.attributor)}
	if _, ok := fl.follower.(*bandFollower); ok { // a query shows what is there at times only
		opt.Removed = fl.attributor.Removed
	}
	if opt.VDSO, err = anoncode.OwnVDSO(); err != nil {
		fl.say("functions of the vDSO have no names: %v", err)
	}
	all := anoncode.New(opt)
	if names == nil || facts.PIDNamespace(proc) != facts.Initial {
		return all, nil // for the latter, threads have other numbers in the trace
	}
	var reported threadentry.Lives
	if b, ok := fl.follower.(*bandFollower); ok {
		reported = &lives{b, b.band.History}
	}
	reader, err := threadentry.NewReader(proc, reported)
	if err != nil {
		return nil, err
	}
	return threadentry.New(threadentry.Options{Inner: all, Places: fl.attributor, Symbols: names, Reader: reader}), nil
}

// settle brings the spaces up to date.
func (fl *following) settle() error {
	return fl.follower.settle()
}

// upTo brings the spaces up to date, up to t at least.
func (fl *following) upTo(t tracefs.Time) error {
	if fl.follower.settled(t) {
		return nil
	}
	return fl.follower.settle()
}

// close stops following. A nil one has stopped.
func (fl *following) close() error {
	if fl == nil {
		return nil
	}
	var err error
	if fl.files != nil && !fl.ids.Alone() { // else it may be held up for ever
		err = fl.files.Close()
	}
	if fl.follower != nil {
		err = errors.Join(err, fl.follower.close())
	}
	return err
}

// known returns the files that are mapped as code now.
func (fl *following) known() []*filemap.File {
	if fl.attributor == nil {
		return nil
	}
	return fl.attributor.Known()
}

// threadsOf lists the threads of processes.
func (fl *following) threadsOf(pids []int) ([]int, error) {
	var tids []int
	for _, pid := range pids {
		list, err := fl.own.Threads(pid)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no process %d", pid)
		}
		if err != nil {
			return nil, err
		}
		tids = append(tids, list...)
	}
	slices.Sort(tids)
	return slices.Compact(tids), nil
}

// family lists the threads of processes and of all their children. A child that has
// ended meanwhile is none.
func (fl *following) family(pids []int) ([]int, error) {
	tids, err := fl.threadsOf(pids)
	if err != nil {
		return nil, err
	}
	all, err := fl.own.Family(pids)
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		if list, err := fl.own.Threads(pid); err == nil {
			tids = append(tids, list...)
		}
	}
	slices.Sort(tids)
	return slices.Compact(tids), nil
}

// likeUs returns the threads of the processes that have our name. By PID alone
// it could be another process, if the PID is from another namespace.
func (fl *following) likeUs(pids []int) []int {
	var tids []int
	var we, they procmap.Process
	if fl.own.Process(os.Getpid(), &we) != nil {
		return nil
	}
	for _, pid := range pids {
		if fl.own.Process(pid, &they) != nil || they.Stat.Comm != we.Stat.Comm {
			continue
		}
		list, err := fl.own.Threads(pid)
		if err == nil {
			tids = append(tids, list...)
		}
	}
	return tids
}

// report prints the queries by result.
func (fl *following) report(say func(string, ...any)) {
	if n := fl.prober.Counts(); n.Asked+n.Refused > 0 {
		say("queried process mappings %d times: %d answered, %d rate-limited", n.Asked, n.Found, n.Refused)
	}
	if b, ok := fl.follower.(*bandFollower); ok {
		b.report(say)
	}
	if n := fl.spaces.Forgotten(); n.Changes+n.Processes > 0 {
		say("dropped %d changes of mappings, and all mappings of %d processes: more than %d MB", n.Changes, n.Processes, space.MaxBytes>>20)
	}
	if n := fl.ids.Slow(); n > 0 {
		say("%s", render.NoAnswer(n))
	}
	if fl.ids.Alone() {
		say("a directory did not answer in time: build IDs were read again each time from then on")
	}
	if n := fl.lost(); n > 0 {
		say("lost %d mapping records: frames from that interval resolve only if the mapping existed before and after", n)
	}
}
