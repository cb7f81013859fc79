package whole

import (
	"sync/atomic"

	"ustack/tracefs/perf"
)

// sample opens a sampler. perf_event_open(2) of a thread waits for exec_update_lock of its
// process, which execve(2) holds while it closes files: for as long as the server of a file
// system in user space likes, in a call that no signal ends. Then all threads are sampled,
// which waits for none; samples of threads that are not traced have no records to go to.
func (s *Source) sample(opt perf.SamplerOptions) (*perf.Sampler, error) {
	if opt.Threads == nil {
		return perf.OpenSampler(opt)
	}
	o := &opening{opt: opt}
	if s.calls.Do(o.run) == nil {
		return o.sampler, o.err
	}
	o.leave()
	s.held, opt.Threads = true, nil
	return perf.OpenSampler(opt)
}

// opening is a sampler that is opened in another goroutine.
type opening struct {
	opt     perf.SamplerOptions
	sampler *perf.Sampler
	err     error
	over    atomic.Bool // run has ended, or its result is not wanted any more
}

func (o *opening) run() {
	o.sampler, o.err = perf.OpenSampler(o.opt)
	o.leave()
}

// leave is called by run, and by its caller once that does not wait any more: the second
// one closes the sampler.
func (o *opening) leave() {
	if !o.over.CompareAndSwap(false, true) && o.err == nil {
		_ = o.sampler.Close() // nothing has been read from it
	}
}
