package perftrace

import "time"

// pace is how often the rings are looked at. The kernel could wake a reader when a ring has
// so many bytes, which a trace of few records would not have for long: so they are looked at
// often enough for the busiest CPU, and less often while there is nothing.
type pace struct {
	least, most time.Duration // between two looks
	pause       time.Duration // after which a batch is Paused
	step        time.Duration
	looked      time.Time
	last        time.Time // when there was something, or since when it is paused
	reported    bool      // that it is paused
	more        bool      // there is more than a batch had room for
}

const (
	// fastest is more than a CPU writes, in bytes for each nanosecond.
	fastest = 0.1
	// seldom is how long records wait for their reader at most.
	seldom = 20 * time.Millisecond
	// soonest is how long they may gather at least.
	soonest = 250 * time.Microsecond
)

// newPace returns the pace for rings of so many bytes: they are looked at when a fifth can
// be full, or, while they have nothing, half.
func newPace(ring int, pause time.Duration) pace {
	full := time.Duration(float64(ring) / fastest)
	return pace{least: max(min(full/5, seldom/4), soonest), most: max(min(full/2, seldom), soonest), pause: pause, last: time.Now()}
}

// begin begins to look for a batch: at once if there is more, else when records have had time
// to gather.
func (p *pace) begin() {
	p.step = p.least
	if d := p.least - time.Since(p.looked); d > 0 && !p.more {
		time.Sleep(d)
	}
	p.looked = time.Now()
}

// rest waits before the next look, longer each time.
func (p *pace) rest() {
	time.Sleep(p.step)
	p.step = min(2*p.step, p.most)
	p.looked = time.Now()
}

// came notes that there was something.
func (p *pace) came() { p.last, p.reported = time.Now(), false }

// paused reports, once, that there has been nothing for long.
func (p *pace) paused() bool {
	if p.reported || p.pause == 0 || time.Since(p.last) < p.pause {
		return false
	}
	p.reported = true
	return true
}
