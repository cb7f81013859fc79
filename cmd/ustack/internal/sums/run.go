//go:build !device && (amd64 || arm64)

package sums

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/signals"
	"ustack/filemap/byid"
	"ustack/filemap/facts"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/bpffutex"
)

// Supported: this build has the source.
const Supported = true

// source is what counts: bpffutex.Source.
type source interface {
	Add(pid int, threads uint64) error
	Remove(pid int) error
	Start() error
	Stop() error
	Close() error
	// Next reads the next wait. The error is io.EOF if there is none until a time, or until Wake.
	Next(w *bpffutex.Wait, until time.Time) error
	// Wake may be called by another goroutine.
	Wake() error
	Sums(fn func(bpffutex.Futex, *bpffutex.Sum) error) error
	Others() (bpffutex.Sum, error)
	Waiting(fn func(bpffutex.Waiting)) error
	Loss() (bpffutex.Loss, error)
	Prune(ended func(bpffutex.Futex) bool, fn func(bpffutex.Futex, *bpffutex.Sum)) error
}

// sink gets the waits, and makes what the run is for.
type sink interface {
	begin(at tracefs.Time) error
	// id returns what stands for a futex in all that the sink gets.
	id(f *bpffutex.Futex) futex.FutexID
	wait(w *futex.LongWait) error
	// gone notes that a futex is no longer counted by itself, with its last sum.
	gone(id futex.FutexID, c *futex.CallSum)
	// step is done several times a second. It is done at the end of the run, too, if it says so.
	step() (done bool, err error)
	// end is called once nothing is counted any more.
	end() error
	close() error
}

// session is one run. The programs are gone from the kernel when it ends, whatever ends it.
type session struct {
	opt     *Options
	source  source
	to      sink
	clock   clock
	files   *files
	names   *symbolize.Symbols // nil without --symbols
	static  *variables
	room    room
	copied  bool          // stacks are copied
	unwound error         // why they are not, though they were to be
	child   *live.Command // nil without a command
	alive   []process     // of Options.PIDs, with their children then, that have not ended
	signals chan os.Signal
	stop    chan struct{} // closed by the first signal
	quit    chan struct{} // closed at the end
	end     time.Time     // of the duration, zero without one
	stopped tracefs.Time  // when the programs were detached, 0 before
	wait    bpffutex.Wait // that was read last
	long    futex.LongWait
}

// clock is the time: wall time, and that of CLOCK_MONOTONIC.
type clock struct {
	now  func() time.Time
	mono func() tracefs.Time
}

// How often the ring buffer is looked at, if the kernel does not wake the reader: which it does for a
// futex that may be of a program that is not known yet, and if much is there. The end of a command is
// waited for. A look takes about 0.3 ms of CPU time, most of it in the runtime: there are fewer once
// what the programs have mapped has not been read for calmAfter, that is, does not change.
const (
	lookOften  = 50 * time.Millisecond
	lookSeldom = 200 * time.Millisecond
	lookCalm   = time.Second
	calmAfter  = 3 * time.Second
)

// pause is how long to wait until the next look.
func (s *session) pause() time.Duration {
	pause := lookSeldom
	switch {
	case s.child != nil:
		return lookOften
	case s.clock.now().Sub(s.files.lately) > calmAfter:
		pause = lookCalm
	}
	if s.opt.Interval > 0 {
		pause = min(pause, max(s.opt.Interval/2, lookSeldom))
	}
	if !s.end.IsZero() {
		pause = min(pause, max(s.end.Sub(s.clock.now()), time.Millisecond))
	}
	return pause
}

// Run looks at the processes until the command or the processes have ended, the time is over or
// a signal comes, and writes the report. It returns the exit code of the command, 0 without one.
func Run(opt *Options) (code int, err error) {
	s := &session{opt: opt, clock: clock{time.Now, space.Monotonic}, signals: make(chan os.Signal, 4), stop: make(chan struct{}), quit: make(chan struct{})}
	defer close(s.quit)
	signals.CatchPipe()
	signal.Notify(s.signals, append(signals.Hangup(), syscall.SIGINT, syscall.SIGTERM)...)
	defer signal.Stop(s.signals)
	if err := s.open(); err != nil {
		return 0, errors.Join(err, s.close())
	}
	err = s.run()
	if cerr := s.close(); err == nil {
		err = cerr
	}
	if err == nil && s.child != nil && s.childEnded(patience) {
		return s.child.ExitCode(), nil
	}
	return 0, err
}

// open prepares all, and begins.
func (s *session) open() (err error) {
	if err := s.prepare(); err != nil {
		return err
	}
	minWait, err := s.sink()
	if err != nil {
		return err
	}
	with := bpffutex.Options{Filtered: s.filtered(), MinWait: minWait}
	if s.opt.Unwind != live.UnwindFP {
		with.Copy = firstCopy
	}
	programs, err := bpffutex.Open(with)
	if err != nil && s.opt.Unwind == live.UnwindAuto {
		with.Copy, s.unwound = 0, err
		programs, err = bpffutex.Open(with)
	}
	if err != nil {
		return err
	}
	s.source = programs
	go s.take()
	s.copied = with.Copy > 0
	if s.files.walks, err = newWalks(s.files, s.opt.Symbols.DebugDirs, s.names != nil || s.opt.Record != nil, programs); err != nil {
		return err
	}
	return s.begin(minWait)
}

// prepare opens what finds files and names.
func (s *session) prepare() (err error) {
	opt := s.opt
	if err := errors.Join(facts.AsInTraces(opt.Proc), sideband.CheckAsking()); err != nil {
		return err
	}
	if s.names, err = opt.Symbols.OpenLive(openfile.BeginAt(time.Now())); err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then there is no cache of perf's
	}
	s.files, err = newFiles(opt.readers, byid.Options{DebugDirs: opt.Symbols.DebugDirs, Home: home, Fetch: opt.Symbols.Fetch})
	if err != nil {
		return err
	}
	s.static = newVariables(nil, s.files)
	if s.names != nil {
		s.static.names = s.names
	}
	return nil
}

// readers returns new readers of what processes have mapped.
func (opt *Options) readers() (r readers, err error) {
	if r.reader, err = procmap.NewReader(procmap.Options{Proc: opt.Proc, Source: opt.MapsSource, IDs: procmap.NewIDs(nil)}); err != nil {
		return r, err
	}
	r.places, err = procmap.NewReader(procmap.Options{Proc: opt.Proc, Source: opt.MapsSource})
	return r, err
}

// sink makes the sink, and returns how long waits are at least that it is to get.
func (s *session) sink() (minWait time.Duration, err error) {
	if r := s.opt.Record; r != nil {
		to, minWait, err := newRecording(s, r)
		if err != nil {
			return 0, err
		}
		s.to = to
		return minWait, nil
	}
	to, err := newReporting(s)
	if err != nil {
		return 0, err
	}
	s.to = to
	return s.opt.MinWait, nil
}

func (s *session) filtered() bool { return len(s.opt.PIDs)+len(s.opt.Command) > 0 }

// begin selects the processes, attaches the programs and releases the command.
func (s *session) begin(minWait time.Duration) (err error) {
	opt := s.opt
	if len(opt.Command) > 0 {
		if s.child, err = live.StartCommand(opt.Command, opt.Child.In, opt.Child.Out, opt.Child.Err); err != nil {
			return err
		}
		s.files.know(int32(s.child.PID()))
		err = s.source.Add(s.child.PID(), 1)
	}
	if err == nil {
		err = s.addFamily()
	}
	if err == nil {
		s.lookAhead()
		err = s.source.Start()
	}
	if err == nil {
		err = s.to.begin(s.clock.mono())
	}
	if err == nil {
		err = s.addFamily() // children that were made meanwhile
	}
	if s.child != nil {
		if err != nil {
			s.child.Kill()
			s.child = nil
			return err
		}
		err = s.child.Release()
	}
	if opt.Duration > 0 {
		s.end = s.clock.now().Add(opt.Duration)
	}
	if err == nil {
		s.say("Linux %s, BPF programs on entries and returns of system calls, waits of %v and more with their stacks, %s", live.Release(), minWait, s.unwinds())
	}
	return err
}

// unwinds says in the start-up line how stacks are found.
func (s *session) unwinds() string {
	switch {
	case s.unwound != nil:
		return fmt.Sprintf("by frame pointers (no copies: %v)", s.unwound)
	case !s.copied:
		return "by frame pointers"
	}
	return fmt.Sprintf("unwound from copies of %d bytes and more", firstCopy)
}

func (s *session) say(format string, args ...any) {
	if !s.opt.Quiet {
		fmt.Fprintf(s.opt.Messages, "ustack: "+format+"\n", args...)
	}
}

// run reads until the end, and writes the report.
func (s *session) run() error {
	for !s.over() {
		if err := s.read(s.clock.now().Add(s.pause())); err != nil {
			return err
		}
		s.files.walks.rest()
		if err := s.makeRoom(s.clock.now()); err != nil {
			return err
		}
		if done, err := s.to.step(); done || err != nil {
			return err
		}
	}
	if s.child == nil { // what comes later is not looked at
		if err := s.read(s.clock.now().Add(lookOften)); err != nil {
			return err
		}
	}
	s.stopped = s.clock.mono()
	s.files.walks.stop()
	if err := s.source.Stop(); err != nil {
		return err
	}
	if err := s.drain(); err != nil {
		return err
	}
	if err := s.to.end(); err != nil {
		return err
	}
	return s.sayWalked()
}

// sayWalked says how far stacks were unwound.
func (s *session) sayWalked() error {
	if !s.copied {
		return nil
	}
	l, err := s.source.Loss()
	if err != nil {
		return err
	}
	if text := s.files.walks.count.text(&l); text != "" {
		s.say("%s", text)
	}
	live.ReportMade(s.files.walks.made.runtimes, s.say)
	return nil
}

// read takes the waits that come until a time, or a little later: to read the clock for each took
// a part of the time that shows.
func (s *session) read(until time.Time) error {
	const each = 64
	for s.clock.now().Before(until) {
		for range each {
			if err := s.next(until); err != nil {
				return ignoring(err, io.EOF)
			}
		}
	}
	return nil
}

// drain takes the waits that are still there.
func (s *session) drain() error {
	for {
		if err := s.next(s.clock.now()); err != nil {
			return ignoring(err, io.EOF)
		}
	}
}

// ignoring returns an error unless it is one that is expected.
func ignoring(err, expected error) error {
	if err == expected {
		return nil
	}
	return err
}

// next takes the next wait. The error is io.EOF if there is none until a time.
func (s *session) next(until time.Time) error {
	if err := s.source.Next(&s.wait, until); err != nil {
		return err
	}
	w := &s.wait
	s.static.seen(&w.Futex, w.To)
	s.long = futex.LongWait{Futex: s.to.id(&w.Futex), From: w.From, To: w.To, TID: w.TID, Comm: w.Comm, Ret: int64(w.Result), Stack: s.files.stack(w)}
	return s.to.wait(&s.long)
}

func futexID(f *bpffutex.Futex) futex.FutexID {
	return futex.FutexID{Addr: f.Addr, Memory: f.Memory, Born: f.Born, TGID: f.TGID, Shared: f.Shared}
}

// close removes the programs.
func (s *session) close() error {
	var err error
	if s.source != nil {
		err = s.source.Close()
	}
	for _, p := range s.alive {
		_ = unix.Close(p.fd)
	}
	if s.files != nil {
		s.files.close()
	}
	if s.to != nil {
		err = errors.Join(err, s.to.close())
	}
	if s.names != nil {
		s.names.Close()
	}
	return err
}
