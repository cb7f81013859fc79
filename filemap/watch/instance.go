package watch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// instance is one instance of inotify, from a start to its end or to a loss of
// events.
type instance struct {
	fs *fsnotify.Watcher
	// The barrier is an event of our own: it comes after all that were queued
	// before it. A pipe makes one without writing to a disk.
	in, out *os.File
	mark    string // the pipe's name in events
	passed  chan struct{}

	mu sync.Mutex
	// pending is what happened and was not asked for yet, by path.
	pending map[string]happening
	broken  error // events were lost
}

// happening is what events say about a path.
type happening struct {
	op    fsnotify.Op
	count int
}

const (
	// patience is how long the barrier's event may take. It takes some µs; a
	// kernel without events for pipes is found out by this.
	patience = 5 * time.Second
	// maxPending bounds the paths of which events are kept.
	maxPending = 1 << 12
)

var (
	errUseless = errors.New("inotify does not report what happens here")
	errLost    = errors.New("too many events")
)

// newInstance starts inotify and tries the barrier.
func newInstance(proc string) (*instance, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("starting inotify: %w", err)
	}
	i := &instance{fs: fs, passed: make(chan struct{}, 1), pending: make(map[string]happening)}
	if err := i.openBarrier(proc); err != nil {
		return nil, errors.Join(err, i.close())
	}
	go i.pump()
	if _, err := i.barrier(); err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

func (i *instance) openBarrier(proc string) (err error) {
	if i.in, i.out, err = os.Pipe(); err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	conn, err := i.in.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { i.mark = proc + "/self/fd/" + strconv.Itoa(int(fd)) })
	}
	if err == nil {
		err = i.fs.Add(i.mark)
	}
	if err != nil {
		return fmt.Errorf("watching a pipe of our own: %w", err)
	}
	return nil
}

func (i *instance) close() error {
	err := i.fs.Close()
	if i.in != nil {
		err = errors.Join(err, i.in.Close(), i.out.Close())
	}
	i.pass() // for waiters: all is forgotten
	return err
}

// pump takes events from fsnotify, which can hold a lock while it waits for
// that. So it takes no lock that is held while fsnotify is called.
func (i *instance) pump() {
	for {
		select {
		case e, ok := <-i.fs.Events:
			switch {
			case !ok:
				return
			case e.Name == i.mark:
				i.pass()
			default:
				i.note(e)
			}
		case err, ok := <-i.fs.Errors:
			if !ok {
				return
			}
			i.fail(err)
		}
	}
}

// note keeps an event. Several of a path are one.
func (i *instance) note(e fsnotify.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	h, known := i.pending[e.Name]
	if !known && len(i.pending) >= maxPending {
		i.broken = errLost
		clear(i.pending)
		return
	}
	i.pending[e.Name] = happening{h.op | e.Op, h.count + 1}
}

// fail notes that events may be missing: of the barrier, too.
func (i *instance) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = err
	i.pass()
}

func (i *instance) pass() {
	select {
	case i.passed <- struct{}{}:
	default:
	}
}

// barrier waits for all events until now and returns them. It is for one
// goroutine at a time. After an error the instance is to be closed.
func (i *instance) barrier() (map[string]happening, error) {
	var b [1]byte
	if _, err := i.out.Write(b[:]); err != nil {
		return nil, fmt.Errorf("writing to a pipe of our own: %w", err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-i.passed:
	case <-late.C:
		return nil, fmt.Errorf("waiting for an event of our own: %w", errUseless)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.broken != nil {
		return nil, i.broken
	}
	happened := i.pending
	if len(happened) > 0 {
		i.pending = make(map[string]happening)
	} else {
		happened = nil
	}
	_, err := i.in.Read(b[:])
	return happened, err
}
