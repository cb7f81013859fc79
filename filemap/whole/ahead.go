package whole

import (
	"time"

	"ustack/filemap/blocked"
	"ustack/tracefs"
)

// Bounds on looking ahead: the trace begins after it.
const (
	maxAhead  = 500 * tracefs.Time(time.Millisecond)
	aheadSize = 64 << 10 // of a stack, in bytes
	// aheadTries is how often a stack is unwound that leads through code of JIT compilers:
	// what was not known of that before counts only for the next time.
	aheadTries = 8
)

// ahead unwinds the stacks in which threads wait now, so that the tables of their files are
// open and the code that they have made is known when the first wait comes.
func (s *Stage) ahead(threads []int, peek func(tid, size int) (*blocked.Stack, error)) {
	until := s.opt.Now() + maxAhead
	for _, tid := range threads {
		for used, n := uint64(0), 0; n < aheadTries; n++ {
			if s.opt.Now() > until {
				return
			}
			p, err := peek(tid, aheadSize)
			if err != nil {
				break
			}
			pid, sp, ok := s.opt.Space(tid, p.From)
			if !ok || pid != p.PID {
				break
			}
			_, end := s.peeked(p, sp)
			if n > 0 && end.Used <= used {
				break
			}
			used = end.Used
		}
	}
}
