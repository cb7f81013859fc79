package sideband

import (
	"errors"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perf"
)

// features are parts of the event that not every kernel has, or lets us have.
type features struct {
	// exec: the event is the tracepoint sched_process_exec.
	exec    bool
	buildID bool // Linux 5.12
	lost    bool // PERF_FORMAT_LOST, Linux 6.0
}

// ladder are the features to try, one after the other.
var ladder = [...]features{
	{true, true, true}, {true, true, false}, {true, false, false},
	{false, true, true}, {false, true, false}, {false, false, false},
}

// event is opened for the sake of the records beside it. The event itself is the end
// of an exec, which no other record reports, or one that never happens.
func (o *Options) event(clock int32, ringSize int, f features) perf.Event {
	e := perf.Event{
		Mappings: true, Comms: true, Tasks: true, BuildIDs: f.buildID, CountLost: f.lost, UserOnly: !f.exec, Clock: clock,
		Wakeup: ringSize / 4, // poll says so with room left for the time until we come
	}
	if f.exec {
		e.Tracepoint = o.ExecEvent
	}
	return e
}

// features returns the features of a step of the ladder that the options allow.
func (o *Options) features(f features) features {
	f.buildID = f.buildID && !o.noIDs
	return f
}

// openEvent opens the event of a place, with as many features as the kernel has.
func (o *Options) openEvent(at perf.Place, clock int32, ringSize int) (fd int, f features, err error) {
	for _, f = range ladder {
		if f.exec && o.ExecEvent == 0 {
			continue
		}
		f = o.features(f)
		e := o.event(clock, ringSize, f)
		e.Inherit = at.Thread()
		fd, err = e.Open(at)
		if err == nil || !f.exec && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.E2BIG) {
			break
		}
	}
	return fd, f, err
}
