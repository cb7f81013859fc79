package live

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/live/sources"
	"ustack/filemap/anoncode"
	"ustack/filemap/blocked"
	"ustack/filemap/hotspot"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
	"ustack/filemap/space"
	"ustack/filemap/symbolize"
	"ustack/filemap/whole"
	"ustack/tracefs"
	"ustack/tracefs/instance"
)

// unwinding gives the waits of a trace their whole stacks. Its zero value does
// nothing.
type unwinding struct {
	on      bool           // stacks are to be unwound
	keeper  *whole.Keeper  // nil if none is to be copied
	source  *whole.Source  // nil before the start, and if no stacks are copied
	stage   *whole.Stage   // nil before the start; the source's if there is one
	lookout *whole.Lookout // nil if threads that wait are not looked at
	rested  time.Time
	id      uint64 // of the tracepoint
	why     string // it is not done, or no stacks are copied, though asked for
	vdso    []byte
	files   *openfile.Opener // nil before the start
}

const (
	// autoSamples is how many waits of a second are unwound by --unwind=auto.
	autoSamples = 20000
	// releaseSamples is how many releases of a second are unwound.
	releaseSamples = 4000
	// javaWait is how long the memory of a Java process is waited for. After that it is not
	// read for a minute, so it is more than a busy machine takes.
	javaWait = time.Second
)

// keepForUnwinding finds out whether stacks can be unwound, and switches perf's side of the
// futex tracepoint on, before ours: see whole.Keeper. With --unwind=auto it prints why not,
// else that is an error.
func (s *session) keepForUnwinding() error {
	if s.opt.Unwind == UnwindFP {
		return nil
	}
	err := s.unwind.keep(s)
	if err != nil && s.opt.Unwind == UnwindAuto {
		s.unwind.why, err = err.Error(), nil
	}
	if err != nil {
		return fmt.Errorf("--unwind=%s: %w", s.opt.Unwind, err)
	}
	return nil
}

// Why stacks cannot be unwound.
var (
	errNoFutexCalls = errors.New("the trace has not all entries into futex")
	errNoCalls      = errors.New("the trace has not all system calls and switches of threads")
	errPerfStacks   = errors.New("--source=perf has the stacks that perf takes")
	errPages        = errors.New("a report of pages has the kernel's stacks")
	errNoBand       = errors.New("this needs the perf side band, which is not in use")
)

// enterFutex is the event of the entry into futex.
const enterFutex = "sys_enter_futex"

// tracesWaits reports whether calls of futex are traced, filtered or not.
func (s *session) tracesWaits() bool {
	return slices.ContainsFunc(s.events, func(e instance.Event) bool { return e.System == "syscalls" && e.Name == enterFutex })
}

// keep is keepForUnwinding without a choice. Waits in all calls have no copies of stacks.
func (u *unwinding) keep(s *session) (err error) {
	futex := instance.Event{System: "syscalls", Name: enterFutex}
	if s.opt.EverySleep {
		err = u.possible(s, errNoCalls, instance.Event{System: "raw_syscalls", Name: "sys_enter"}, instance.Event{System: "raw_syscalls", Name: "sys_exit"},
			instance.Event{System: "sched", Name: "sched_switch"})
	} else if err = u.possible(s, errNoFutexCalls, futex); err == nil {
		u.id, err = s.in.Root().ID(futex)
	}
	if err != nil {
		return err
	}
	if u.vdso, err = anoncode.VDSOMemory(); err != nil {
		return err
	}
	u.on = true
	if s.opt.EverySleep || s.opt.Unwind == UnwindBlocked {
		return s.canLookOut()
	}
	u.keeper, err = whole.Keep(u.id)
	return err
}

// possible returns why stacks cannot be unwound, nil if they can: missing if not all of these
// events are traced.
func (u *unwinding) possible(s *session, missing error, events ...instance.Event) error {
	filtered := func(e instance.Event) bool { return !slices.Contains(s.events, e) }
	_, band := s.follow.follower.(*bandFollower)
	switch {
	case s.opt.Pages != nil:
		return errPages
	case s.in == nil:
		return errPerfStacks
	case slices.ContainsFunc(events, filtered):
		return missing
	case s.opt.Source == sources.Text:
		return source.ErrNoRaw
	case !band:
		return errNoBand
	}
	return nil
}

// startUnwinding begins to sample, once the traced threads are known.
func (s *session) startUnwinding() error {
	u := &s.unwind
	if !u.on {
		return nil
	}
	reader, err := procmap.NewReader(procmap.Options{Proc: s.opt.Proc, Filter: procmap.Filter{Perms: procmap.Exec}})
	if err != nil {
		return fmt.Errorf("--unwind: %w", err)
	}
	opener, err := u.opener(reader, s.opt.DebugDirs)
	if err != nil {
		return err
	}
	opener.Since = s.began
	if s.namesCode() {
		s.follow.machines = hotspot.NewNames()
	}
	opt := whole.SourceOptions{Threads: s.sampledThreads, Options: whole.Options{
		Tracepoint: u.id, Space: s.follow.spaceOf, Open: opener.Open, Debug: opener.Debug, Now: space.Monotonic,
		Deferred: s.stacks == instance.DeferredStacks, Memory: procmem.New(javaWait), Names: s.follow.machines,
	}}
	if s.opt.Unwind == UnwindAuto {
		opt.PerSecond = autoSamples
		if opt.BufferKB, err = s.in.BufferKB(); err != nil {
			return fmt.Errorf("--unwind: %w", err)
		}
	}
	if !opt.Deferred {
		opt.Releases, opt.Ticks = releaseSamples, ticks(s.in, s.events)
	}
	if len(s.opt.PIDs) > 0 && s.canLookOut() == nil {
		opt.Ahead = blocked.NewReader(blocked.Options{Proc: s.opt.Proc}).Read
	}
	if !s.source.Exact() {
		err = source.ErrNoRaw
	} else if u.keeper != nil {
		u.source, err = whole.OpenSource(opt)
	}
	if err != nil && s.opt.Unwind != UnwindAuto {
		return fmt.Errorf("--unwind=%s: %w", s.opt.Unwind, err)
	}
	if err != nil {
		u.why = err.Error()
	}
	if u.source != nil {
		u.stage = u.source.Stage
	}
	if err := s.lookOut(&opt.Options); err != nil {
		return err
	}
	if u.stage != nil {
		for _, pid := range s.opt.PIDs {
			u.stage.Prepare(pid)
		}
	}
	return nil
}

// opener opens the files that are unwound through, until close.
func (u *unwinding) opener(reader *procmap.Reader, debugDirs []string) (*whole.Opener, error) {
	u.files = openfile.NewOpener(0)
	separates, err := symbolize.NewSeparates(debugDirs, "", u.files)
	if err != nil {
		return nil, err
	}
	return &whole.Opener{Reader: reader, VDSO: u.vdso, Files: u.files, Separates: separates}, nil
}

// sampledThreads returns the threads that are traced now, nil for all.
func (s *session) sampledThreads() []int {
	if s.child == nil && len(s.opt.PIDs) == 0 {
		return nil
	}
	list, err := s.tracer.PIDs()
	if err != nil {
		return nil
	}
	return list
}

// spaceOf returns what the process of a thread had mapped.
func (fl *following) spaceOf(tid int, t tracefs.Time) (pid int, sp *space.Space, ok bool) {
	pid, late, ok := fl.threads.PID(tid, t)
	if !ok || late {
		return 0, nil, false
	}
	sp = fl.spaces.Space(pid)
	return pid, sp, sp != nil && !sp.Loading(t, t+1)
}

// read takes the samples until now.
func (u *unwinding) read() tracefs.Time {
	if u.source == nil {
		return 0
	}
	return u.source.Read()
}

// batch gives a batch the stacks that samples prove.
func (u *unwinding) batch(b *tracefs.Batch, samplesUntil tracefs.Time) {
	switch {
	case u.source != nil:
		u.source.Give(b, samplesUntil)
	case u.stage != nil:
		u.stage.Batch(b, samplesUntil)
		u.rest()
	}
}

// restarted notes that records of the trace may be missing.
func (u *unwinding) restarted() {
	if u.source != nil {
		u.source.Restarted()
	}
}

// words say in the start-up line how stacks are found.
func (u *unwinding) words() string {
	waits := ""
	if u.lookout != nil {
		waits = "waits of over 1 ms unwound while they last"
	}
	switch {
	case u.source != nil && waits != "":
		return ", waits unwound from copies of " + strconv.Itoa(u.source.Sampled().StackBytes) + " bytes, others of over 1 ms while they last"
	case u.source != nil:
		return ", waits unwound from copies of " + strconv.Itoa(u.source.Sampled().StackBytes) + " bytes"
	case waits != "" && u.why != "":
		return ", " + waits + " (no copies: " + u.why + ")"
	case waits != "":
		return ", " + waits
	case u.why != "":
		return ", not unwound (" + u.why + ")"
	}
	return ""
}

// report prints how much was unwound.
func (u *unwinding) report(say func(string, ...any)) {
	if u.source != nil {
		u.reportCopies(say)
	}
	if u.stage != nil {
		ReportMade(u.stage.Runtimes(), say)
	}
	if u.lookout == nil {
		return
	}
	c := u.lookout.Counts()
	if u.source != nil && c.Waits == 0 {
		return
	}
	say("%d of %d waits of over 1 ms%s unwound while they lasted (%d over before that or proven too late, %d not looked at as there were too many or the trace was read late, %d of which the thread was not proven to be in the call, %d of which the stack cannot be read, %d of which it proves no more)",
		c.Whole, c.Waits, u.besides(), c.Missed, c.Busy, c.Refused, c.Failed, c.Kept)
}

// ReportMade prints what became of code in stacks that programs have made.
func ReportMade(ms *whole.Runtimes, say func(string, ...any)) {
	reportJava(ms.Java(), say)
	reportMade(ms.Made(), say)
}

// reportJava prints what became of Java code in stacks.
func reportJava(c whole.JavaCounts, say func(string, ...any)) {
	if c.Unknown != nil {
		say("Java code ends stacks: %v", c.Unknown)
	}
	if c.Frames+c.Fresh+c.Changed+c.Unread == 0 {
		return
	}
	say("%d frames of Java code (%d of the interpreter without a name that is proven); stacks that end at Java code: %d where it was not known before, %d where it was other code, %d where it cannot be read",
		c.Frames, c.Unnamed, c.Fresh, c.Changed, c.Unread)
}

// reportMade prints what became of code without a file in stacks.
func reportMade(c whole.MadeCounts, say func(string, ...any)) {
	if c == (whole.MadeCounts{}) {
		return
	}
	say("%d frames of code that programs have made; stacks that end at such code: %d where it was not known before, %d where it was other code, %d where it keeps no frame pointer or cannot be followed, %d where it cannot be read",
		c.Frames, c.Fresh, c.Changed, c.Other, c.Unread)
}

// besides says which waits are looked at.
func (u *unwinding) besides() string {
	if u.source == nil {
		return ""
	}
	return " without a sample"
}

func (u *unwinding) reportCopies(say func(string, ...any)) {
	c, n := u.source.Counts(), u.source.Sampled()
	say("%d of %d wait stacks unwound, %d by frame pointers (%d without a sample, %d of which it proves no more); copies of %d bytes, %d too short",
		c.Whole, c.Waits, c.Waits-min(c.Waits, c.Whole), c.Alone, c.Kept, n.StackBytes, c.Short)
	if c.Contradicted+c.Dropped > 0 {
		say("%d deferred stacks that are not what was unwound at the event, %d unwound whose deferred stack did not come", c.Contradicted, c.Dropped)
	}
	if c.Releases > 0 && n.Releases.StackBytes > 0 {
		say("%d of %d release stacks unwound (at most %d a second; %d pauses, %d copies lost); copies of %d bytes",
			c.ReleasesWhole, c.Releases, releaseSamples, n.Releases.Pauses, n.Releases.Lost, n.Releases.StackBytes)
	}
	reportTicks(&c, say)
	if n.Lost+n.Pauses > 0 {
		say("%d copies of stacks lost as the ring buffer of perf was full; %d pauses, as there were too many or the trace was read late, with about %d waits without a sample", n.Lost, n.Pauses, n.Missed)
	}
	if err := u.source.Err(); err != nil {
		say("unwinding ended: %v", err)
	}
}

// close ends the unwinding. It may be called again.
func (u *unwinding) close() {
	_ = u.keeper.Close() // it only releases a tracepoint
	u.lookout.Close()
	if u.stage != nil && u.source == nil {
		u.stage.Close()
	}
	if u.files != nil {
		u.files.Close()
	}
}
