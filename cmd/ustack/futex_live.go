package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/output"
	"ustack/filemap"
	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/instance"
)

const futexLiveHelp = `usage: ustack futex --live [flags] [-- CMD ARGS...]

Traces futex calls as ustack live does, until CMD ends, --duration is over or
Ctrl-C comes, and then reports who waits for which lock. Manual: ustack help futex.

  ustack futex --live -- ./program
  ustack futex --live -p 1234 --duration 10s
  ustack futex --live --unwind=auto --symbols -- ./program  # without frame pointers
  ustack futex --live -e sched:sched_switch -e sched:sched_waking --duration 10s

Events of -e are traced besides the futex calls; sched_switch and sched_waking
make the report surer. On a terminal the report so far is updated every second.

`

// futexLive is "futex --live".
func futexLive(args []string, std command.Streams) error {
	f, source, err := parseFutexLive(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	s := newSession("futex", std)
	s.bare = true
	return s.main(source, &futexOutput{s: s, f: f})
}

func parseFutexLive(args []string, stdout io.Writer) (*futexFlags, *liveFlags, error) {
	var f futexFlags
	var source liveFlags
	fs := command.NewFlags("futex")
	source.sourceFlags(fs)
	f.viewFlags(fs)
	fs.BoolVar(&f.owners, "owners", false, "read the owners of locks that threads wait for from memory")
	fs.Func("interval", "update the report every `TIME`, 0 for at the end only (default 1s on a terminal, else 0)", f.setInterval)
	if err := command.Parse(fs, args, futexLiveHelp, stdout); err != nil {
		return nil, nil, err
	}
	if f.interval != nil && f.format != "text" && f.format != "json" && !f.json {
		return nil, nil, errors.New("--interval is for text and JSON: a profile is of the whole trace")
	}
	if f.format == "text" && !f.json && f.interval == nil && render.NewScreen(stdout) != nil {
		f.interval = new(time.Duration)
		*f.interval = defaultInterval
	}
	source.command = fs.Args()
	source.stitch = true // a wait is reported with its stack
	source.more, source.events = source.events, nil
	return &f, &source, errors.Join(f.check(), source.checkSource(args))
}

// defaultInterval is how often the answer so far is shown on a terminal.
const defaultInterval = time.Second

// setInterval understands --interval.
func (f *futexFlags) setInterval(text string) error {
	d, err := time.ParseDuration(text)
	if text == "0" {
		d, err = 0, nil
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a time like 1s", text)
	}
	f.interval = &d
	return nil
}

// futexOutput is the output of futex --live: the report, at the end, and what it
// is so far.
type futexOutput struct {
	s      *session
	f      *futexFlags
	a      *futex.Analysis
	names  *symbol.Symbols // nil without --symbols
	screen *render.Screen  // nil if there is none, or nothing is shown on it
	shown  time.Time
	owners *owners        // nil if owners are not read
	lockUp *futex.Verdict // that was seen last, nil if none was then
	looked time.Time
}

func (o *futexOutput) open() error {
	if err := output.CheckProfile(o.s.stdout, o.f.profile); err != nil {
		return err
	}
	if o.f.owners {
		if o.s.follow.follower == nil {
			return errors.New("--owners needs the processes of the trace, and they are not on this machine")
		}
		o.owners = newOwners(o.s.follow)
	}
	var err error
	if o.names, err = o.f.symbols.Open("", o.s.stderr); err != nil {
		return err
	}
	o.s.names = o.names
	if o.every() > 0 {
		o.screen = render.NewScreen(o.s.stdout)
		o.s.noCounter = o.screen != nil
	}
	o.shown = time.Now()
	o.s.tick = ownersEvery
	if o.owners == nil {
		o.s.tick = time.Second / 2
	}
	if every := o.every(); every > 0 {
		o.s.tick = min(o.s.tick, every)
	}
	opt := futex.Options{Calls: o.f.eachWait()}
	o.f.clock = clock
	if o.s.follow.follower != nil {
		if o.s.stacks == instance.DeferredStacks {
			if o.s.follow.early, err = newEarly(o.s.f, o.s.follow); err != nil {
				return err
			}
		}
		m := &liveMappings{follow: o.s.follow}
		opt.Mappings = m
		if o.names != nil {
			opt.Layouts = m
		}
	}
	o.a = futex.New(opt)
	return nil
}

func (o *futexOutput) renderer(*resolve.Resolver) render.Renderer { return o.a }

// every is how often the answer so far is shown, 0 for never.
func (o *futexOutput) every() time.Duration {
	if o.f.interval == nil {
		return 0
	}
	return *o.f.interval
}

func (o *futexOutput) step(t *resolve.Totals) error {
	if o.owners != nil && o.s.until.Load() == 0 { // what is read later is of after the trace
		o.owners.now(o.a)
	}
	if o.s.progress.idle() && !o.s.in.Root().Plain() {
		o.a.Until(space.Monotonic())
	}
	o.lookForLockUp()
	if o.every() == 0 || time.Since(o.shown) < o.every() || !o.a.Seen() {
		return nil
	}
	err := o.show(t)
	o.shown = time.Now() // a slow terminal gets less
	return err
}

// lockUpEvery is how often a trace in which nothing happens is looked at for why.
const lockUpEvery = time.Second

// lookForLockUp remembers a lock-up while its threads hang: they may be killed,
// by what stops the tracing, too.
func (o *futexOutput) lookForLockUp() {
	if o.s.until.Load() != 0 || !o.s.progress.idle() && o.lockUp == nil || time.Since(o.looked) < lockUpEvery || !o.a.Seen() {
		return
	}
	o.looked = time.Now()
	if o.names != nil {
		o.a.NameLocks(o.names)
	}
	o.countRefused(o.a)
	r := o.a.Interim(futex.View{})
	if o.lockUp = nil; r.Verdict.LockUp() {
		o.lockUp = &r.Verdict
	}
}

// countRefused adds the records that the kernel refused, of which readers of the buffer
// see nothing, to an analysis.
func (o *futexOutput) countRefused(a *futex.Analysis) {
	var n uint64
	for _, st := range o.s.refused() {
		n += st.CommitOverrun
	}
	a.Refused(n)
}

// show shows the answer so far: on a terminal in the place of the one before,
// elsewhere after it.
func (o *futexOutput) show(t *resolve.Totals) error {
	if o.names != nil {
		o.a.Name(o.names)
		o.a.NameLocks(o.names)
	}
	o.countRefused(o.a)
	var text bytes.Buffer
	if o.screen != nil {
		lost, _ := t.LostRecords()
		fmt.Fprintf(&text, "%d events, %d lost; Ctrl-C for the whole answer\n\n", t.Events, lost)
	}
	if err := o.f.write(&text, o.a.Interim(o.f.view), o.names); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if o.screen != nil {
		return o.screen.Show(text.Bytes())
	}
	text.WriteByte('\n')
	if _, err := o.s.stdout.Write(text.Bytes()); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// close writes the report, of an interrupted trace too.
func (o *futexOutput) close() error {
	if o.a == nil {
		return nil
	}
	a := o.a
	o.a = nil
	var err error
	if !o.s.in.Root().Plain() {
		a.Until(tracefs.Time(o.s.until.Load()))
	}
	if a.Seen() {
		o.countRefused(a)
		err = errors.Join(o.screen.Clear(), o.f.reportNamed(o.s.stdout, o.s.stderr, a, o.names, o.lockUp))
	}
	if o.names != nil {
		o.names.Close()
	}
	return err
}

// liveMappings has threads and shared memory while they are there.
type liveMappings struct {
	follow *following
}

// Process implements futex.Mappings.
func (m *liveMappings) Process(tid int32) (int32, bool) {
	pid, ok := m.follow.process(int(tid))
	return int32(pid), ok
}

// SharedFile implements futex.Mappings. Mappings of data are not reported: the
// process is read, if it still runs.
func (m *liveMappings) SharedFile(tid int32, _ tracefs.Time, _ bool, addr uint64) (id, path string, offset uint64, ok bool) {
	pid, ok := m.Process(tid)
	if !ok {
		return "", "", 0, false
	}
	at, ok := m.follow.at(int(pid), addr)
	if !ok {
		return "", "", 0, false
	}
	if at.Perms&procmap.Shared == 0 || at.Inode == 0 {
		return "", "", 0, true
	}
	return fmt.Sprintf("%s:%d", at.Dev, at.Inode), at.Name, at.FileOffset(addr), true
}

// Layout implements futex.Layouts.
func (m *liveMappings) Layout(tid, _ int32, _ []byte, at tracefs.Time, timed bool, addr uint64) (filemap.Layout, filemap.Trust) {
	if !timed {
		return nil, filemap.NoTrust
	}
	return m.follow.layouts.Layout(int(tid), at, addr)
}

// process is the process of a thread.
func (fl *following) process(tid int) (int, bool) {
	pid, _, ok := fl.threads.PID(tid, space.Monotonic())
	if !ok {
		// One that has ended may be known from before.
		pid, _, ok = fl.threads.PID(tid, space.Monotonic()-recently)
	}
	if !ok {
		pid, ok = fl.early.process(tid)
	}
	return pid, ok
}

// recently is how far back a thread is looked for that has ended.
const recently = 5e9

// at reads what a process has mapped at an address.
func (fl *following) at(pid int, addr uint64) (procmap.Mapping, bool) {
	h, err := fl.all.Open(pid)
	if err != nil {
		return fl.early.at(pid, addr)
	}
	defer h.Close()
	m, ok, err := h.At(addr)
	if err != nil {
		return fl.early.at(pid, addr)
	}
	return m, ok
}
