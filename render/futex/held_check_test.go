package futex

import "fmt"

// check returns what of the invariants does not hold.
func (hd *held) check() error {
	pending := make(map[*hold]bool)
	for _, h := range hd.list[hd.head:] {
		if pending[h] {
			return fmt.Errorf("a hold of thread %d is there twice", h.tid)
		}
		pending[h] = true
		sum := -h.low()
		for _, x := range h.pieces {
			sum += x.time
			if x.time < 0 {
				return fmt.Errorf("a piece of the hold until %d is %d", h.to, x.time)
			}
		}
		if sum > 0 || h.from > h.to {
			return fmt.Errorf("the hold of thread %d from %d to %d has pieces for %d more than %d", h.tid, h.from, h.to, sum, h.low())
		}
	}
	if len(pending) > maxSpans || len(hd.longest) > maxLongest {
		return fmt.Errorf("%d holds may be reached, %d are the longest", len(pending), len(hd.longest))
	}
	for _, h := range hd.free {
		if h.kept || pending[h] {
			return fmt.Errorf("a hold of thread %d may be used twice", h.tid)
		}
	}
	for th := range hd.activity.tasks.threads.all() {
		if len(th.took) > maxTaken {
			return fmt.Errorf("thread %d has taken %d locks", th.tid, len(th.took))
		}
		if n := len(th.proc.find().lefts.list); n > maxLefts {
			return fmt.Errorf("the process of thread %d has left %d locks", th.tid, n)
		}
	}
	return nil
}
