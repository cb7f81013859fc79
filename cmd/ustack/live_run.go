package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/facts"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/input"
	"ustack/tracefs/instance"
)

// live is the subcommand.
func live(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := newSession("live", stdin, stdout, stderr)
	f, err := parseLive(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		s.complain(err)
		return exitUsage
	}
	return s.main(f, &liveOutput{s: s})
}

// newSession returns a session of a command.
func newSession(name string, stdin io.Reader, stdout, stderr io.Writer) *session {
	return &session{name: name, garbage: garbage, stdin: stdin, stdout: stdout, theirs: stderr, stderr: render.Output(stderr)}
}

// main is a command that traces, from the beginning to the exit code.
func (s *session) main(f *liveFlags, to sink) int {
	s.f, s.sink = f, to
	s.stop = newStopper(s)
	defer s.close()
	defer debug.SetGCPercent(debug.SetGCPercent(s.garbage))
	code, err := s.run()
	if errors.Is(err, unix.EPIPE) {
		return exitOK // who reads us has seen enough
	}
	if err != nil {
		s.complain(err)
		code = exitFailure
	}
	return code
}

// complain tells of an error.
func (s *session) complain(err error) { fmt.Fprintf(s.stderr, "ustack %s: %v\n", s.name, err) }

// sink is where a session's trace goes.
type sink interface {
	// open is called when all is ready and nothing is traced yet.
	open() error
	// renderer is asked for once.
	renderer(res *resolve.Resolver) render.Renderer
	// step is called after each batch.
	step(t *resolve.Totals) error
	// close is called at the end, whatever that is.
	close() error
}

// How much garbage there may be, in percent of what is in use: some megabytes with
// live, so that the time of the collector is better spent on the trace; more with
// record, which compresses.
const (
	garbage       = 200
	recordGarbage = 100
)

// session is one run of a command that traces: what has to be taken down again.
type session struct {
	f    *liveFlags
	name string // of the command
	sink sink
	// records tells that the sink looks at each event, noCounter that it shows
	// itself how far it is.
	records   bool
	noCounter bool
	bare      bool            // the sink shows no record, only what is made of them
	garbage   int             // in percent
	names     *symbol.Symbols // of functions, nil for none
	tick      time.Duration   // how often the sink has a step at least, 0 for after batches only
	stdin     io.Reader
	stdout    io.Writer
	theirs    io.Writer // standard error as it is, for the command
	stderr    io.Writer // the same for us

	stop   *stopper
	in     *instance.Instance
	stacks instance.StackSource
	// userStacks is whether stacks can come at all.
	userStacks facts.Stacks

	events []instance.Event // that are traced
	maps   []instance.Event // that announce files
	beside *rawStacks       // of the same events, nil for none
	unwind unwinding
	raw    *binary.Live // the ring buffer, nil if text is read
	others []int        // PIDs of others like us
	follow *following
	child  *child
	saved  *saver

	settings settings

	reannounced time.Time
	unannounced int64
	renewals    int64 // how often the kernel was asked to announce again

	weighed        time.Time
	gaps           int64        // when that was
	bytes, entries uint64       // of full buffers
	read           atomic.Int64 // bytes of the ring buffer, else of text
	progress       progress
	until          atomic.Int64 // when tracing was stopped, on its clock
}

// progress is how far the trace has been read and judged.
type progress struct {
	batches, judged atomic.Int64
	taken           int64       // batches, by who judges them
	paused          atomic.Bool // the last batch that was read
}

// counted are batches that are counted.
type counted struct {
	*input.Pipe
	s *session
}

// Next implements input.Batches.
func (c *counted) Next() (*tracefs.Batch, error) {
	b, err := c.Pipe.Next()
	if b != nil {
		c.s.progress.taken++
	}
	return b, err
}

// hasRead notes that a batch has been read.
func (p *progress) hasRead(paused bool) {
	p.paused.Store(paused)
	p.batches.Add(1)
}

// idle reports whether all that the trace has had until a moment ago is judged.
func (p *progress) idle() bool {
	return p.judged.Load() == p.batches.Load() && p.paused.Load()
}

// close takes everything down. It may be called again, and by the goroutine
// that waits for signals.
func (s *session) close() {
	for _, in := range []*instance.Instance{s.in, s.beside.instance()} {
		if in == nil {
			continue
		}
		if err := in.Remove(); err != nil {
			fmt.Fprintf(s.stderr, "ustack %s: removing the tracing instance: %v\n", s.name, err)
		}
	}
	s.stop.end()
	s.settings.close()
	s.unwind.close()
	_ = s.follow.close() // again, or after an error that is told
	_ = s.saved.close()
}

// run traces from the beginning to the end.
func (s *session) run() (int, error) {
	if err := s.prepare(); err != nil {
		return exitFailure, err
	}
	if err := s.startCommand(); err != nil {
		return exitFailure, err
	}
	trace, err := s.open()
	if err != nil {
		s.abandon()
		return exitFailure, err
	}
	if err := s.sink.open(); err != nil {
		s.abandon()
		return exitFailure, errors.Join(err, trace.Close())
	}
	if err := s.begin(); err != nil {
		s.abandon()
		return exitFailure, errors.Join(err, trace.Close(), s.sink.close())
	}
	totals, err := s.pump(trace)
	cerr := errors.Join(s.sink.close(), s.follow.close(), s.saved.close())
	if err == nil {
		err = cerr // after another error it says the same again
	}
	if err != nil {
		return exitFailure, err
	}
	s.report(totals)
	if s.child != nil && s.child.ended(s.stop.patience()) {
		return s.child.exitCode(), nil
	}
	return exitOK, nil
}

// errForeignPIDs: what is known of a process would be taken for that of another
// one, and its files for those of the other.
var errForeignPIDs = errors.New("a trace has the PIDs of the initial PID namespace, and we are in another one: " +
	"run ustack outside of the container, or the container with --pid=host")

// prepare makes the instance, all of it but the threads that it is for. Nothing
// is switched on before all that was asked for is known to exist.
func (s *session) prepare() error {
	root, err := instance.Find(s.f.tracefs)
	if err != nil {
		return err
	}
	if !root.Plain() {
		if facts.PIDNamespace(s.f.proc) == facts.Other {
			return errForeignPIDs
		}
		if cleaned, err := root.Clean(); err == nil {
			s.others = cleaned.Alive()
			if len(cleaned.Removed) > 0 {
				s.say("removed what dead processes had left: %s", strings.Join(cleaned.Removed, ", "))
			}
		}
	}
	if s.events, err = s.selected(root); err != nil {
		return err
	}
	if s.in, err = root.Create(); err != nil {
		return err
	}
	if err := s.in.Configure(instance.Config{Clock: clock, BufferKB: s.f.bufferKB}); err != nil {
		return err
	}
	if s.stacks, err = s.in.SetStacks(instance.BestStacks); err != nil {
		return err
	}
	if err := s.checkStacks(); err != nil {
		return err
	}
	if s.stacks == instance.DeferredStacks {
		if s.maps, err = s.in.EnableMappings(); err != nil {
			return err
		}
		s.startBeside()
	}
	if err := s.watchSettings(); err != nil {
		return err
	}
	if err := s.in.SetFilters(s.events); err != nil {
		return err
	}
	if err := s.startFollowing(root); err != nil {
		return err
	}
	if err := s.keepForUnwinding(); err != nil {
		return err
	}
	// Whoever came first to a tracepoint is told first: when sched_process_exec
	// is traced, its stack is known to be the new program's. And the raw stack of
	// an event comes after the event.
	if err := s.in.Enable(s.events); err != nil {
		return err
	}
	s.beside.set(func(in *instance.Instance) error { return in.Enable(s.events) })
	return nil
}

// startFollowing begins to follow address spaces, and to save what is told of
// them.
func (s *session) startFollowing(root *instance.Root) error {
	if root.Plain() {
		s.follow = new(following) // the processes of its stacks are none of ours
		return nil
	}
	var log io.Writer
	var err error
	if s.f.save != "" {
		if s.saved, err = newSaver(s.f.save); err != nil {
			return err
		}
		log = s.saved.spaces
	}
	s.follow, err = startFollowing(s.f, root, log, s.progress.idle, s.say)
	return err
}

// clock is the trace_clock that is used: perf can use it too, and it never
// jumps.
const clock = "mono"

// selected finds the events to trace.
func (s *session) selected(root *instance.Root) ([]instance.Event, error) {
	specs := instance.Defaults()
	if len(s.f.events) > 0 {
		specs = nil
	}
	for _, text := range append(s.f.events, s.f.more...) {
		spec, err := instance.ParseSpec(text)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	sel, err := root.Select(specs)
	return sel.Events, err
}

// startCommand starts the command, if there is one, and chooses whose events
// are traced. Our own are not: each would make another one. Nor are those of
// others like us who began before: each would make one there that makes one here.
func (s *session) startCommand() error {
	var err error
	if len(s.f.command) > 0 {
		if s.child, err = startChild(s.f.command, s.stdin, s.stdout, s.theirs); err != nil {
			return err
		}
		if err = s.trace([]int{s.child.pid()}); err != nil {
			s.abandon()
		}
		return err
	}
	if len(s.f.tids) > 0 {
		return s.restrict(s.f.tids)
	}
	if s.in.Root().Plain() {
		return nil
	}
	own, err := s.follow.threadsOf([]int{os.Getpid()})
	if err != nil {
		return err
	}
	own = append(own, s.follow.likeUs(s.others)...)
	s.beside.set(func(in *instance.Instance) error { return in.ExcludePIDs(own, true) })
	return s.in.ExcludePIDs(own, true)
}

// trace has only these threads traced. What makes raw stacks knows them first.
func (s *session) trace(tids []int) error {
	s.beside.set(func(in *instance.Instance) error { return in.SetPIDs(tids, true) })
	return s.in.SetPIDs(tids, true)
}

// restrict has only these processes traced. The kernel follows what threads on
// its list make; those that were made while we wrote the list are added.
func (s *session) restrict(pids []int) error {
	known, err := s.follow.threadsOf(pids)
	if err == nil {
		err = s.trace(known)
	}
	const rounds = 10
	for range rounds {
		if err != nil {
			break
		}
		now, lerr := s.follow.threadsOf(pids)
		fresh := slices.DeleteFunc(slices.Clone(now), func(tid int) bool { return slices.Contains(known, tid) })
		if lerr != nil || len(fresh) == 0 {
			break // a process that has ended meanwhile was there to be traced
		}
		s.beside.set(func(in *instance.Instance) error { return in.AddPIDs(fresh) })
		known, err = now, s.in.AddPIDs(fresh)
	}
	return err
}

// abandon ends a command that was never let run.
func (s *session) abandon() {
	if s.child != nil {
		s.child.kill()
		s.child = nil
	}
}

// begin says what it found, switches tracing on and lets the command run.
func (s *session) begin() error {
	s.beside.open()
	if err := s.startUnwinding(); err != nil {
		return err
	}
	if err := s.startLine(); err != nil {
		return err
	}
	s.beside.set((*instance.Instance).Start)
	s.settings.look() // what we have set ourselves is over
	if err := s.in.Start(); err != nil {
		return err
	}
	if s.child != nil {
		if err := s.child.release(); err != nil {
			return err
		}
	}
	s.stop.arm()
	return nil
}

// pump writes the trace as it comes.
func (s *session) pump(trace input.ReadCloser) (*resolve.Totals, error) {
	hold := resolve.Limits{Lines: defaultHoldLines, Bytes: defaultHoldBytes, Time: tracefs.Time(defaultHoldTime)}
	if s.f.stitch {
		hold.Time = tracefs.Time(stitchedHoldTime)
	}
	opt := resolve.Options{Hold: hold, Stitch: s.f.stitch, Strict: s.f.strict, Sources: 1}
	switch {
	case s.follow.judge == nil:
	case s.names != nil:
		var err error
		if opt.Evidence, err = s.follow.named(s.f.proc, s.names); err != nil {
			return nil, err
		}
	default:
		opt.Evidence = s.follow.judge
	}
	res := resolve.New(opt)
	counter := render.NewCounter(s.stderr, s.f.quiet || s.noCounter || !render.IsTerminalWriter(s.stderr))
	defer counter.Done()
	var failed error
	pipe := input.NewPipe(&followed{ReadCloser: trace, s: s})
	if s.tick > 0 {
		ticker := time.NewTicker(s.tick)
		defer ticker.Stop()
		pipe.Tick(ticker.C)
	}
	totals, err := pump(&counted{pipe, s}, res, s.sink.renderer(res), func() {
		counter.Step(res.Totals())
		s.renew(res.Totals())
		s.weigh(res.Totals())
		s.progress.judged.Store(s.progress.taken)
		// In the kernel's text, a name can hold a head of any time.
		s.follow.reached(min(res.Judged(), space.Monotonic()))
		if failed == nil {
			failed = s.sink.step(res.Totals())
			if failed != nil {
				s.stop.finish()
			}
		}
	})
	return totals, errors.Join(err, failed)
}

// followed is the trace with the address spaces kept up: all that happened
// before a record is known when the record is read.
type followed struct {
	input.ReadCloser
	s     *session
	place position
}

// Next implements input.Reader.
func (r *followed) Next(b *tracefs.Batch) error {
	whole := false
	defer r.s.stop.unless(&whole)
	err := r.ReadCloser.Next(b)
	if r.s.settings.look() {
		r.place.restart()
		r.s.unwind.restarted()
		err = r.s.settings.again(r, b)
	}
	r.place.move(b)
	r.s.progress.hasRead(b.Paused)
	if r.s.raw != nil {
		r.s.read.Store(r.s.raw.Bytes())
	} else {
		r.s.read.Add(int64(len(b.Text)))
	}
	if err == nil || err == io.EOF {
		until := r.s.unwind.read()
		serr := errors.Join(r.s.beside.drain(b, err == io.EOF, r.s.follow), r.s.follow.settle())
		r.place.grow(r.s.unwind.batch(b, until))
		if serr = errors.Join(serr, r.s.saved.text(b.Text)); serr != nil {
			err = serr
		}
		r.s.follow.early.visit(b)
	}
	whole = true
	return err
}

// Close implements input.ReadCloser.
func (r *followed) Close() error {
	return errors.Join(r.s.unwind.source.Close(), r.ReadCloser.Close())
}

// lastStacks is how long deferred stacks that were asked for may take to come.
const lastStacks = 50 * time.Millisecond

// stopTracing lets the reader come to an end.
func (s *session) stopTracing() error {
	s.until.Store(int64(space.Monotonic()))
	if s.stacks == instance.DeferredStacks && !s.in.Root().Plain() {
		// What is on its way to user space still gives its stack, if tracing is on.
		if err := s.in.Disable(s.events); err != nil {
			return err
		}
		time.Sleep(lastStacks)
	}
	err := s.in.Stop()
	s.beside.stop()
	return err
}

// renewEvery is how often the kernel may be asked to announce files again.
const renewEvery = time.Second

// renew has the kernel announce all files again if identifiers have stayed
// without an announcement.
func (s *session) renew(t *resolve.Totals) {
	missing := t.Reasons[filemap.Unannounced] + t.Reasons[filemap.Lost]
	if s.stacks != instance.DeferredStacks || missing == s.unannounced || time.Since(s.reannounced) < renewEvery {
		return
	}
	s.unannounced, s.reannounced = missing, time.Now()
	if err := s.in.Reannounce(); err == nil {
		s.renewals++
	}
}

// say tells something on stderr.
func (s *session) say(format string, args ...any) {
	if !s.f.quiet {
		fmt.Fprintf(s.stderr, "ustack: "+format+"\n", args...)
	}
}
