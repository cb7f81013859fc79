package bounded

import (
	"sync"
	"time"
)

// call is a function to call, and whom its end matters to.
type call struct {
	fn func()
	of *Calls
}

// worker makes calls, one after the other, in its own goroutine: a call costs
// neither a new goroutine nor memory. A call that is given up is its worker's last.
// While a worker waits it refers to no Calls, so that they can be collected.
type worker struct {
	calls chan call
	done  chan struct{} // a call has come back that was not given up
	timer *time.Timer   // the caller's

	// Of the call, under the lock of its Calls: at most one is set.
	back, givenUp bool
}

func newWorker() *worker {
	w := &worker{calls: make(chan call), done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	go w.run()
	return w
}

func (w *worker) run() {
	for k := range w.calls {
		k.fn()
		if !k.of.comeBack(w) {
			return
		}
		w.done <- struct{}{}
	}
}

// maxIdle bounds the workers that wait for a call.
const maxIdle = 2

// pool has the workers that wait for a call.
type pool struct {
	mu   sync.Mutex
	idle []*worker
}

// take takes a worker out, a new one if none waits.
func (p *pool) take() *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return newWorker()
	}
	w := p.idle[last]
	p.idle = p.idle[:last]
	w.back = false
	return w
}

// keep puts a worker in whose call has come back, or ends it.
func (p *pool) keep(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == maxIdle {
		close(w.calls)
		return
	}
	p.idle = append(p.idle, w)
}

// end ends all that wait.
func (p *pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.idle {
		close(w.calls)
	}
	p.idle = nil
}
