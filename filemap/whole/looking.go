package whole

import (
	"slices"
	"sync"
	"time"

	"ustack/filemap/hotspot"
)

// looking looks for new code of virtual machines, as code counts only from when it is known
// on.
type looking struct {
	mu     sync.Mutex
	list   []*hotspot.Machine
	ticker *time.Ticker // nil if nothing is looked for
	quit   chan struct{}
}

// lookEvery is the time between two looks; each machine has a bound of its own.
const lookEvery = 5 * time.Millisecond

// add has the code of a machine be looked for.
func (l *looking) add(m *hotspot.Machine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, m)
	if l.ticker == nil {
		l.ticker, l.quit = time.NewTicker(lookEvery), make(chan struct{})
		go l.run(l.ticker, l.quit)
	}
}

func (l *looking) run(t *time.Ticker, quit chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-t.C:
			l.look()
		}
	}
}

// look looks once. Machines whose memory cannot be read have ended.
func (l *looking) look() {
	l.mu.Lock()
	list := slices.Clone(l.list)
	l.mu.Unlock()
	var ended []*hotspot.Machine
	for _, m := range list {
		if err := m.Look(); err != nil && !hotspot.IsBusy(err) {
			ended = append(ended, m)
		}
	}
	if len(ended) > 0 {
		l.remove(ended...)
	}
}

// remove has the code of machines not be looked for any more.
func (l *looking) remove(gone ...*hotspot.Machine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(m *hotspot.Machine) bool { return slices.Contains(gone, m) })
}

// close ends the looking.
func (l *looking) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ticker != nil {
		l.ticker.Stop()
		close(l.quit)
		l.ticker, l.list = nil, nil
	}
}
