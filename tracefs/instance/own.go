package instance

import (
	"sync"
	"time"
)

// ownWrites are the settings that we have written ourselves.
type ownWrites struct {
	mu   sync.Mutex
	list map[string]ownWrite
	// under is locked shared to write, and exclusively to look up what was
	// written: one write makes several inotify events (opening with O_TRUNC is one),
	// and the write is not forgotten before the last of them.
	under sync.RWMutex
}

type ownWrite struct {
	value string
	at    time.Time
}

// lately is how long a write of ours may take to be noticed: on a slow machine
// write(2) itself takes seconds (trace_clock waits for all CPUs). A write that
// has been noticed is forgotten, so that a longer time hides no write of
// others.
const lately = 30 * time.Second

// note remembers a write, before or after it.
func (o *ownWrites) note(name, value string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list == nil {
		o.list = make(map[string]ownWrite)
	}
	o.list[name] = ownWrite{value, time.Now()}
}

// begin forgets all: a watch begins.
func (o *ownWrites) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = nil
}

// forget forgets the writes that have been noticed. (The kernel queues an inotify event
// before write(2) returns.)
func (o *ownWrites) forget(names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		delete(o.list, name)
	}
}

// wrote returns the value that we have last written to a file, and whether that
// was after a time.
func (i *Instance) wrote(name string, since time.Time) (value string, after bool) {
	o := &i.ownWrites
	o.mu.Lock()
	defer o.mu.Unlock()
	w, ok := o.list[name]
	return w.value, ok && w.at.After(since)
}
