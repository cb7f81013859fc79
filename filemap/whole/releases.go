package whole

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// releases samples the calls that let other threads go on. Threads wait for the copies, and
// a condition variable can be signalled far more often than threads wait: there is a budget
// of copies, and they are small. A release without a sample keeps the kernel's stack.
type releases struct {
	perSecond int // 0 for no releases
	open      func(size int) (*perf.Sampler, error)
	sampler   *perf.Sampler
	growth    growth
	left      int // samples that may come until filled
	filled    tracefs.Time
	paused    bool
	since     tracefs.Time // when it paused last
	useful    useful
	err       error
	total     atomic.Uint64
	pauses    atomic.Uint64
	lost      atomic.Uint64
	bytes     atomic.Int64
}

const (
	// firstRelease and mostRelease are the sizes of the copies, in bytes.
	firstRelease, mostRelease = 1 << 10, 16 << 10
	// releaseRing is the room for copies on each CPU, in bytes.
	releaseRing = 1 << 20
	// lateRelease is how late the trace is read at most with many releases. It is less
	// than lateRead: stacks of waits are worth more.
	lateRelease = lateRead / 2
)

// releaseFilter passes the futex calls that let others go on: FUTEX_WAKE, WAKE_BITSET,
// WAKE_OP, UNLOCK_PI, REQUEUE, CMP_REQUEUE and CMP_REQUEUE_PI, with and without
// FUTEX_PRIVATE_FLAG. The waits of glibc are sorted out first.
func releaseFilter() string {
	const private = 128
	var list []string
	for _, cmd := range [...]int{1, 5, 10, 7, 4, 3, 12} {
		list = append(list, "op=="+strconv.Itoa(cmd|private), "op=="+strconv.Itoa(cmd))
	}
	return "op!=128&&op!=137&&op!=393&&(" + strings.Join(list, "||") + ")"
}

// start begins to sample. Without it, all goes on.
func (r *releases) start() {
	if r.perSecond <= 0 {
		return
	}
	r.growth, r.left = growth{size: firstRelease, most: mostRelease}, r.most()
	r.reopen(nil)
}

// reopen samples with the size that copies are to have now. Both samplers sample for a
// moment: of two samples of one call, one is refused. read takes those of the old one.
func (r *releases) reopen(read func()) {
	next, err := r.open(r.growth.size)
	if err != nil {
		r.growth.most, r.err = r.growth.size, errors.Join(r.err, err) // it goes on as it was
		return
	}
	if r.sampler != nil {
		read()
		r.err = errors.Join(r.err, r.sampler.Close())
	}
	r.sampler, r.paused = next, false
	r.bytes.Store(int64(r.growth.size))
}

// read passes the samples until now to take.
func (r *releases) read(take func(*perf.StackSample)) {
	if r.sampler == nil {
		return
	}
	n := 0
	r.sampler.Read(func(p *perf.StackSample) {
		n++
		take(p)
	}, func(l perf.Loss) { r.lost.Add(l.Records) })
	r.left -= n
	r.total.Add(uint64(n))
}

// bound ends sampling while the samples are above the budget, or the trace is read late,
// but for a part of them now and then.
// waits: waits are not sampled, as there are too many, so neither are releases. read takes
// the samples until now.
func (r *releases) bound(now, late tracefs.Time, waits bool, read func()) {
	if r.sampler == nil {
		return
	}
	r.fill(now)
	switch few := late <= lateRelease; {
	case !r.paused && (waits || r.left <= 0 || !few && r.left < r.most()/2):
		r.err, r.paused = errors.Join(r.err, r.sampler.Pause()), true
		r.since = now
		r.pauses.Add(1)
	case r.paused && !waits && r.goesOn(now, few):
		r.err, r.paused = errors.Join(r.err, r.sampler.Resume()), false
	}
	if r.growth.due() {
		r.growth = r.growth.grown()
		r.reopen(read)
	}
}

// goesOn reports whether sampling that has paused goes on; few means that the trace is not
// read late.
func (r *releases) goesOn(now tracefs.Time, few bool) bool {
	return r.left >= r.most()/4 && (few || now-r.since >= tasteEvery)
}

// most is how many samples may come at once.
func (r *releases) most() int { return r.perSecond / 4 }

// fill adds what the time since the last call allows. Where samples have had nothing to
// add, it is less.
func (r *releases) fill(now tracefs.Time) {
	const less = 8
	perSecond := tracefs.Time(r.perSecond)
	if r.useful.not() {
		perSecond /= less
	}
	more := min(now-r.filled, 1e9) * perSecond / 1e9
	if more <= 0 {
		return
	}
	if r.left, r.filled = r.left+int(more), now; r.left >= r.most() {
		r.left, r.useful = r.most(), useful{} // tried anew
	}
}

// useful counts how many stacks of samples have frames that the kernel's have not.
type useful struct{ stacks, more int }

// not reports whether hardly any has: programs with frame pointers, code without tables.
func (u *useful) not() bool {
	const least, part = 50, 20
	return u.stacks >= least && u.more*part < u.stacks
}

// close ends sampling.
func (r *releases) close() error {
	if r.sampler == nil {
		return nil
	}
	err := r.sampler.Close()
	r.sampler = nil
	return err
}

// ReleasesSampled is how the sampling of releases went.
type ReleasesSampled struct {
	Samples, Lost, Pauses uint64
	StackBytes            int // of a copy, 0 if there are none
}

func (r *releases) counts() ReleasesSampled {
	return ReleasesSampled{r.total.Load(), r.lost.Load(), r.pauses.Load(), int(r.bytes.Load())}
}

// openReleases opens a sampler of releases, for the same threads as that of waits.
func (s *Source) openReleases(size int) (*perf.Sampler, error) {
	threads := s.opt.Threads()
	if len(threads) > maxThreads || s.held {
		threads = nil
	}
	return s.sample(perf.SamplerOptions{
		Tracepoints: []perf.Tracepoint{{ID: s.opt.Tracepoint, Filter: releaseFilter()}},
		Threads:     threads, StackBytes: size, RingSize: releaseRing, Sys: s.opt.Sys,
	})
}

// boundReleases bounds the samples of releases, see releases.bound.
func (s *Source) boundReleases(last tracefs.Time) {
	now, late := s.opt.Now(), tracefs.Time(0)
	if last > 0 {
		late = now - last
	}
	s.wakes.bound(now, late, s.pace.paused, func() { s.wakes.read(s.Sample) })
}

// released gives a release the stack of its sample.
func (s *Stage) released(b *tracefs.Batch, p pair, c *Counts) {
	if p.call.record < 0 || p.call.batch != s.batch || !alike(p) {
		return
	}
	frames := s.whole(b, p, c)
	kernel, _ := b.StackFrames(&b.Records[p.call.record])
	s.wakes.useful.stacks++
	if len(frames) > len(kernel) {
		s.wakes.useful.more++
	}
	if frames != nil {
		s.replaced(b, p.call.record, frames)
		c.ReleasesWhole++
	}
}
