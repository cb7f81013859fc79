package main

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/filemap"
	"ustack/filemap/facts"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/tracefs/binary"
	"ustack/tracefs/instance"
)

// live is the subcommand.
func live(args []string, std command.Streams) error {
	f, err := parseLive(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	s := newSession("live", std)
	return s.main(f, &liveOutput{s: s})
}

// newSession returns a session of a command.
func newSession(name string, std command.Streams) *session {
	return &session{name: name, garbage: garbage, stdin: std.In, stdout: std.Out, theirs: std.Err, stderr: std.Messages()}
}

// main is a command that traces, from the beginning to its end.
func (s *session) main(f *liveFlags, to sink) error {
	s.f, s.sink = f, to
	s.stop = newStopper(s)
	defer s.close()
	defer debug.SetGCPercent(debug.SetGCPercent(s.garbage))
	code, err := s.run()
	if err != nil {
		return err
	}
	return command.Exit(code)
}

// complain prints an error.
func (s *session) complain(err error) { fmt.Fprintf(s.stderr, "ustack %s: %v\n", s.name, err) }

// sink is where a session's trace goes.
type sink interface {
	// open is called when all is ready and nothing is traced yet.
	open() error
	// renderer is called once.
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
	// records is set if the sink looks at each event, noCounter if it shows its own
	// progress.
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
	_ = s.follow.close() // again, or after an error that is reported
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

// begin prints the start line, switches tracing on and releases the command.
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

// lastStacks is how long deferred stacks that were asked for may take to come.
const lastStacks = 50 * time.Millisecond

// stopTracing stops tracing, so that the reader reaches the end.
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

// say prints a message on stderr.
func (s *session) say(format string, args ...any) {
	if !s.f.quiet {
		fmt.Fprintf(s.stderr, "ustack: "+format+"\n", args...)
	}
}
