package live

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/filemap"
	"ustack/filemap/facts"
	"ustack/filemap/openfile"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/render"
	"ustack/tracefs/instance"
)

// Run traces until the sink is done, the time is over, the traced processes have
// ended or a signal comes. It returns the exit code of the command that was traced, 0
// without one.
func Run(opt *Options, to Sink) (code int, err error) {
	s := &session{opt: opt, sink: to, began: openfile.BeginAt(time.Now())}
	s.stop = newStopper(s)
	s.nothing.s = s
	defer s.close()
	return s.run()
}

// session is one run of the engine, with all that has to be taken down again.
type session struct {
	opt   *Options
	sink  Sink
	needs Needs           // of the sink
	began *openfile.Begin // before anything was read

	stop   *stopper
	tracer tracer             // nil before it is prepared
	in     *instance.Instance // the tracer, if it is an instance, else nil
	stacks instance.StackSource
	// userStacks is whether the kernel can take user stacks.
	userStacks facts.Stacks

	events []instance.Event // that are traced
	maps   []instance.Event // that announce files
	beside *rawStacks       // of the same events, nil for none
	unwind unwinding
	source source.Source
	others []int // PIDs of others like us
	follow *following
	child  *child
	rights rights
	saved  *saver

	settings settings
	growth   growth

	renewal renewal
	nothing nothing

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
	if err := remove(s.tracer, s.beside.instance()); err != nil {
		s.opt.Reporter.complain(fmt.Errorf("removing the tracing instance: %w", err))
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
		return 0, err
	}
	if err := s.startCommand(); err != nil {
		return 0, err
	}
	if err := s.startGrowth(); err != nil {
		s.abandon()
		return 0, err
	}
	defer s.growth.end()
	trace, err := s.open()
	if err != nil {
		s.abandon()
		return 0, err
	}
	if err := s.openSink(); err != nil {
		s.abandon()
		return 0, errors.Join(err, trace.Close())
	}
	if err := s.begin(); err != nil {
		s.abandon()
		return 0, errors.Join(err, trace.Close(), s.sink.End())
	}
	totals, err := s.pump(trace)
	empty := s.nothing.end(totals)
	shown, err := ended(err, s.sink.End(), errors.Join(s.follow.close(), s.saved.close()), empty)
	if err != nil {
		return 0, err
	}
	if shown || s.nothing.lost.Load() {
		s.report(totals)
	}
	return s.code(empty)
}

// ended returns the error of a run by the errors of reading, of the sink and of what else was
// written, and whether anything was shown. Where empty is not nil, nothing could be shown, which is
// said already: then neither of the first two is an error for that.
func ended(read, sink, others, empty error) (shown bool, err error) {
	shown = true
	for _, e := range [...]*error{&read, &sink} {
		if empty != nil && errors.Is(*e, render.ErrEmpty) {
			*e, shown = nil, false
		}
	}
	if read != nil {
		return shown, read // after it, the others say the same again
	}
	return shown, errors.Join(sink, others)
}

// code returns the exit code of the command, if there is one that has ended. One that ended
// well hides no error: empty is why nothing was seen, nil if something was.
func (s *session) code(empty error) (int, error) {
	if s.child == nil || !s.child.ended(s.stop.patience()) {
		return 0, empty
	}
	code := s.child.exitCode()
	if code == 0 || empty == nil {
		return code, empty
	}
	s.say("%v", empty)
	return code, nil
}

// begin switches tracing on, prints the start line and releases the command.
func (s *session) begin() error {
	s.beside.open()
	if err := s.startUnwinding(); err != nil {
		return err
	}
	s.beside.set((*instance.Instance).Start)
	s.settings.look() // what we have set ourselves is over
	if err := s.tracer.Start(); err != nil {
		return err
	}
	if err := s.startLine(); err != nil {
		return err
	}
	if s.child != nil {
		if err := s.child.release(); err != nil {
			return err
		}
	}
	s.stop.arm()
	s.nothing.begin()
	return nil
}

// lastStacks is how long deferred stacks that were asked for may take to come.
const lastStacks = 50 * time.Millisecond

// stopTracing stops tracing, so that the reader reaches the end.
func (s *session) stopTracing() error {
	s.until.Store(int64(space.Monotonic()))
	if s.stacks == instance.DeferredStacks {
		// Threads on their way to user space still record their stacks, if tracing is on.
		if err := s.tracer.Disable(s.events); err != nil {
			return err
		}
		time.Sleep(lastStacks)
	}
	err := s.tracer.Stop()
	s.beside.stop()
	return err
}

// renewEvery is how often the kernel may be asked to announce files again.
const renewEvery = time.Second

// renewal decides when the kernel is asked to announce all files again.
type renewal struct {
	unannounced int64     // frames, when it was asked last
	at          time.Time // when
	asked       int64     // how often
}

// due reports whether more identifiers have stayed without a mapping event, and the
// kernel has not been asked lately. It is asked then.
func (r *renewal) due(t *resolve.Totals, now time.Time) bool {
	missing := t.Reasons[filemap.Unannounced] + t.Reasons[filemap.Lost]
	if missing == r.unannounced || now.Sub(r.at) < renewEvery {
		return false
	}
	r.unannounced, r.at = missing, now
	return true
}

// renew has the kernel announce all files again, if that is due.
func (s *session) renew(t *resolve.Totals) {
	if s.in != nil && s.stacks == instance.DeferredStacks && s.renewal.due(t, time.Now()) && s.in.Reannounce() == nil {
		s.renewal.asked++
	}
}

// say prints a message.
func (s *session) say(format string, args ...any) { s.opt.Reporter.Say(format, args...) }
