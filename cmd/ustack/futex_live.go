package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"

	"ustack/filemap/procmap"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/render"
	"ustack/render/futex"
	"ustack/tracefs"
)

const futexLiveHelp = `usage: ustack futex --live [flags] [-- CMD ARGS...]

Traces futex calls as ustack live does, until CMD ends, --duration is over or
Ctrl-C comes, and then says who waits for whom.

  ustack futex --live -- ./program
  ustack futex --live -p 1234 --duration 10s
  ustack futex --live -e sched:sched_switch -e sched:sched_waking --duration 10s

Events of -e are traced besides the futex calls; sched_switch and sched_waking
make the answer surer.

`

// futexLive is "futex --live".
func futexLive(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := newSession("futex", stdin, stdout, stderr)
	f, source, err := parseFutexLive(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		s.complain(err)
		return exitUsage
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	return s.main(source, &futexOutput{s: s, f: f})
}

func parseFutexLive(args []string, stdout io.Writer) (*futexFlags, *liveFlags, error) {
	var f futexFlags
	var source liveFlags
	fs := newFlags("futex")
	source.sourceFlags(fs)
	f.viewFlags(fs)
	if err := parseFlags(fs, args, futexLiveHelp, stdout); err != nil {
		return nil, nil, err
	}
	source.command = fs.Args()
	source.stitch = true // a wait is told with its stack
	source.more, source.events = source.events, nil
	return &f, &source, errors.Join(f.check(), source.checkSource(args))
}

// futexOutput is the output of futex --live: the report, at the end.
type futexOutput struct {
	s *session
	f *futexFlags
	a *futex.Analysis
}

func (o *futexOutput) open() error {
	if err := checkProfile(o.s.stdout, o.f.profile); err != nil {
		return err
	}
	var opt futex.Options
	if o.s.follow.follower != nil {
		opt.Mappings = &liveMappings{follow: o.s.follow}
	}
	o.a = futex.New(opt)
	return nil
}

func (o *futexOutput) renderer(*resolve.Resolver) render.Renderer { return o.a }

func (o *futexOutput) step(*resolve.Totals) error { return nil }

// close writes the report, of an interrupted trace too.
func (o *futexOutput) close() error {
	if o.a == nil || !o.a.Seen() {
		return nil
	}
	a := o.a
	o.a = nil
	return o.f.report(o.s.stdout, o.s.stderr, a)
}

// liveMappings tell of threads and shared memory while they are there.
type liveMappings struct {
	follow *following
}

// Process implements futex.Mappings.
func (m *liveMappings) Process(tid int32) (int32, bool) {
	pid, ok := m.follow.process(int(tid))
	return int32(pid), ok
}

// SharedFile implements futex.Mappings. Of data nobody tells: the process is
// asked, if it still runs.
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

// process is the process of a thread.
func (fl *following) process(tid int) (int, bool) {
	pid, _, ok := fl.threads.PID(tid, space.Monotonic())
	if !ok {
		// One that has ended may be known from before.
		pid, _, ok = fl.threads.PID(tid, space.Monotonic()-recently)
	}
	return pid, ok
}

// recently is how far back a thread is looked for that has ended.
const recently = 5e9

// at asks a process what it has at an address.
func (fl *following) at(pid int, addr uint64) (procmap.Mapping, bool) {
	h, err := fl.all.Open(pid)
	if err != nil {
		return procmap.Mapping{}, false
	}
	defer h.Close()
	m, ok, err := h.At(addr)
	return m, ok && err == nil
}
