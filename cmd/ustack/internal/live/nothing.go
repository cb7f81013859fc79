package live

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"ustack/filemap/compat"
	"ustack/filemap/procmap"
	"ustack/filemap/procmem"
	"ustack/filemap/resolve"
	"ustack/filemap/threadstate"
	"ustack/tracefs/syscalls"
)

// Counter is a sink that counts the records that it is for, if those are not all.
type Counter interface{ Wanted() int64 }

// nothing finds out why a trace has none of the records that were asked for.
type nothing struct {
	s     *session
	began time.Time
	seen  atomic.Bool // a record
	lost  atomic.Bool // some records: those that were asked for may be among them
	timer *time.Timer
}

// remindAfter is how long nothing is seen before the user is told so.
const remindAfter = 10 * time.Second

// begin notes when tracing begins. Why nothing is seen is said after a while, and goes on
// to be said at the end.
func (n *nothing) begin() {
	n.began = time.Now()
	n.timer = time.AfterFunc(remindAfter, func() {
		if !n.seen.Load() && !n.s.needs.OwnProgress {
			n.s.say("%s (it goes on)", n.why())
		}
	})
}

// step notes whether something has been seen.
func (n *nothing) step(t *resolve.Totals) {
	wanted := t.Events
	if c, ok := n.s.sink.(Counter); ok {
		wanted = c.Wanted()
	}
	if wanted > 0 {
		n.seen.Store(true)
	}
	if lost, _ := t.LostRecords(); lost > 0 || t.Gaps > 0 {
		n.lost.Store(true)
	}
}

// end returns an error if nothing was seen of a trace that is expected to show something:
// an empty output is no success, and one that only says what was lost is no answer.
func (n *nothing) end(t *resolve.Totals) error {
	n.timer.Stop()
	if t != nil {
		n.step(t)
	}
	if n.seen.Load() || n.s.opt.MayBeEmpty {
		return nil
	}
	return errors.New(n.why())
}

// why says what the processes did in place of what was asked for.
func (n *nothing) why() string {
	s := n.s
	what := "event of those that were asked for"
	futex := s.tracesWaits() && len(s.opt.Events) == 0 && len(s.opt.Specs) == 0
	switch {
	case futex:
		what = "futex call"
	case len(s.opt.Specs) > 0:
		what = "wait that began or ended"
	}
	if n.lost.Load() {
		what += " among the records that were not lost"
	}
	head := fmt.Sprintf("nothing seen in %s: no %s", time.Since(n.began).Round(100*time.Millisecond), what)
	switch {
	case s.child != nil:
		return head + " of the command"
	case len(s.opt.PIDs) == 0:
		return head + " of any process"
	}
	var list []string
	more, runs := "", false
	for i, pid := range s.opt.PIDs {
		if i == mostNamed {
			more = fmt.Sprintf("; %d more processes", len(s.opt.PIDs)-i)
			break
		}
		does, now := n.process(pid)
		list, runs = append(list, does), runs || now
	}
	text := head + "; " + strings.Join(list, "; ") + more
	switch {
	case futex && runs:
		text += fmt.Sprintf(". For where it spends its CPU time, try: perf top -p %d", s.opt.PIDs[0])
	case futex:
		text += fmt.Sprintf(". A call that began before the trace is seen when it ends. For what else it waits, try: ustack wait --symbols -p %d", s.opt.PIDs[0])
	}
	return text
}

// mostNamed is how many processes, and how many states of each, a message has at most.
const mostNamed = 3

// process says what the threads of a process do now, and whether some run.
func (n *nothing) process(pid int) (does string, runs bool) {
	processes, err := procmap.NewReader(procmap.Options{Proc: n.s.opt.Proc})
	if err != nil {
		return fmt.Sprintf("PID %d: %v", pid, err), false
	}
	reader := threadstate.Reader{Processes: processes, Call: callNames(), Code: codeOf()}
	p, err := reader.Read(pid)
	switch {
	case errors.Is(err, threadstate.ErrEnded):
		return fmt.Sprintf("PID %d has ended", pid), false
	case err != nil:
		return fmt.Sprintf("PID %d: %v", pid, err), false
	}
	var do []string
	for i, c := range p.Do {
		runs = runs || c.What == threadstate.Running
		if i == mostNamed {
			do = append(do, "…")
			break
		}
		do = append(do, state(c, p.Threads))
	}
	return fmt.Sprintf("%s (PID %d) %s", printable(p.Name), pid, strings.Join(do, ", ")), runs
}

// state says what some of the threads of a process do.
func state(c threadstate.Count, all int) string {
	who := ""
	if all > 1 {
		who = fmt.Sprintf("%d of %d threads: ", c.Threads, all)
	}
	switch c.What {
	case threadstate.Running:
		return who + "runs"
	case threadstate.Stopped:
		return who + "is stopped"
	case threadstate.Unknown:
		return who + "sleeps"
	case threadstate.Exception:
		return who + "waits in the kernel outside system calls"
	}
	return who + "waits in " + c.What
}

// printable is a name without control characters.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
}

// codeOf returns how the code of a process is read, nil where all calls are numbered in one way.
func codeOf() func(pid int, addr uint64, b []byte) error {
	if runtime.GOARCH != "amd64" || !compat.Int80() {
		return nil
	}
	memory := procmem.New(0)
	return func(pid int, addr uint64, b []byte) error {
		return memory.Read(pid, procmem.Part{Addr: addr, To: b})
	}
}

// callNames returns the names of this machine's system calls.
func callNames() func(nr int32) string {
	table := syscalls.NoTable
	switch runtime.GOARCH {
	case "amd64":
		table = syscalls.AMD64
	case "arm64":
		table = syscalls.Generic
	}
	names := syscalls.NewNumbers()
	return func(nr int32) string { return names.Name(table, nr) }
}
