package sums

import (
	"runtime"
	"time"

	"ustack/filemap/blocked"
	"ustack/filemap/unwind"
	"ustack/tracefs/bpffutex"
	"ustack/tracefs/perf"
)

// Bounds on looking ahead: the programs are attached after it.
const (
	maxAhead        = 500 * time.Millisecond
	maxAheadThreads = 64
	// aheadTries is how often a stack is unwound that leads through code that the process has
	// made: what was not known of that before counts only for the next time.
	aheadTries = 8
)

// ahead unwinds the stacks in which threads wait before the programs are attached, so that the tables of
// their files are open, and enough is copied of their stacks, when the first wait comes. The tables of
// a large program take longer to open than the ring buffer has room for copies.
type ahead struct {
	walks   *walks
	peek    func(tid, size int) (*blocked.Stack, error) // see blocked.Reader
	until   time.Time
	threads int // that may still be looked at
	made    made
}

// newAhead begins to look ahead.
func (w *walks) newAhead(peek func(tid, size int) (*blocked.Stack, error)) *ahead {
	// What it finds out about code that processes have made is for it alone: it would be counted.
	return &ahead{walks: w, peek: peek, until: time.Now().Add(maxAhead), threads: maxAheadThreads, made: newMade(w.made.memory, w.opener, false)}
}

// close ends it.
func (a *ahead) close() { a.made.runtimes.Close() }

// program unwinds stacks of threads of a process.
func (a *ahead) program(p *program, pid int, threads []int) {
	var need uint64
	for _, tid := range threads {
		if a.threads--; a.threads < 0 || !time.Now().Before(a.until) {
			break
		}
		need = max(need, a.thread(p, pid, tid))
	}
	p.walked.runs = 0 // it is a number of a.made
	if need > firstCopy {
		a.walks.copyMore(p, int32(pid), need)
	}
}

// thread unwinds the stack of a thread, and returns how many bytes of it that needs.
func (a *ahead) thread(p *program, pid, tid int) (used uint64) {
	for range aheadTries {
		s, err := a.peek(tid, bpffutex.MaxCopy)
		if err != nil || s.PID != pid || s.ABI != perf.ABI64 {
			return used
		}
		in := unwind.Input{Machine: machines[runtime.GOARCH], Max: mostFrames}
		in.Space = &view{walks: a.walks, made: &a.made, program: p, pid: pid, at: s.From}
		for n := range uint8(perf.MaxRegisters) {
			if v, ok := s.Regs.Get(int(n)); ok {
				in.Regs.Set(n, v)
			}
		}
		in.Stack.At, _ = s.Regs.SP()
		in.Stack.Bytes = s.Memory
		var end unwind.End
		a.walks.frames, end = a.walks.unwinder.Unwind(&in, a.walks.frames[:0])
		if end.Used <= used || !time.Now().Before(a.until) {
			return max(used, end.Used)
		}
		used = end.Used
	}
	return used
}
