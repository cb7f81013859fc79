package anoncode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/privilege"
)

// Processes has the perf maps of processes that run here. A process's map is
// /tmp/perf-PID.map, where the process sees /tmp, and by the number that the
// process knows itself by (map__new in tools/perf/util/map.c).
type Processes struct {
	proc string
	same func(Program) bool
	stat *procmap.Reader
	now  func() (mono, real tracefs.Time)
	// calls look at files as processes see them, which can be on a server that
	// does not answer.
	calls  *bounded.Calls
	newest func(proc string) (pid int, ok bool) // see newestPID
	others *namesakes
	shelf
}

// life identifies the process whose map is kept.
type life struct {
	program tracefs.Time // when it began
	checked tracefs.Time // monotonic
	until   tracefs.Time // monotonic: all that was written before has been read
	ticks   uint64       // field 22 of /proc/PID/stat, 0 if it is not there
	began   tracefs.Time // monotonic, not before that
	// shared: the map is, or was, another process's, too.
	shared bool
	home
}

// home is where a process has its map, and its required owner.
type home struct {
	root   *os.Root // nil if there is none
	user   uint32
	inside int // the number that the process knows itself by
}

func (h *home) close() {
	if h.root != nil {
		_ = h.root.Close() // of a directory: nothing to lose
	}
	h.root = nil
}

// NewProcesses returns the maps of the processes that a proc file system shows;
// "" means /proc. same reports whether a process still runs the same program;
// one that has ended does not.
func NewProcesses(proc string, same func(Program) bool) (*Processes, error) {
	r, err := procmap.NewReader(procmap.Options{Proc: proc, Source: procmap.Text})
	if err != nil {
		return nil, err
	}
	return &Processes{proc: r.Proc(), same: same, stat: r, now: clocks, calls: bounded.New(0),
		newest: newestPID, others: new(namesakes), shelf: newShelf()}, nil
}

// stamp is how exact the times of frames are.
const stamp = tracefs.Time(time.Microsecond)

// find implements maps. The map is as it was at t or later: programs write code to
// it before they run the code.
func (ps *Processes) find(p Program, t tracefs.Time) *perfMap {
	mono, real := ps.now()
	s, ok := ps.take(p.PID)
	if !ok || s.life.program != p.Began {
		if !ps.same(p) {
			return nil // it has become another program, and was not read before
		}
		if ok {
			s.life.close()
		}
		s = &slot{life: life{program: p.Began}}
		ps.put(p.PID, s)
	}
	if s.life.checked <= t+stamp && ps.same(p) {
		ps.look(p, s, mono, real)
		if !ps.same(p) {
			s.mapFile = mapFile{} // of the new program, perhaps
		}
		ps.shrink(s)
	}
	if t < s.life.began || t > s.life.until || s.life.shared {
		return nil // it was another process then, or may have written more since, or not all
	}
	return s.perf
}

// look looks whether there is more to read. A process that has ended may have
// written more before, if it is sure that no other one has its number there.
func (ps *Processes) look(p Program, s *slot, mono, real tracefs.Time) {
	s.life.checked = mono
	h := &s.life.home
	st, err := ps.stat.Stat(p.PID)
	switch {
	case errors.Is(err, procmap.ErrGone) && h.root != nil && h.inside == p.PID:
	case err != nil:
		return
	default:
		if st.StartTime != s.life.ticks {
			s.mapFile = mapFile{}
			h.close()
			s.life.shared = false
			s.life.ticks, s.life.began = st.StartTime, sinceBoot(st.StartTime)+mono-bootNow(mono)
		}
		now, err := ps.enter(p.PID)
		if err != nil {
			return
		}
		if again, err := ps.stat.Stat(p.PID); err != nil || again.StartTime != st.StartTime {
			now.close() // it may be the root of another process
			return
		}
		h.close()
		*h = now
	}
	began := s.life.began + tick
	if p.Exact {
		began = max(began, p.Began)
	}
	ps.update(p.PID, s, fresh(h.user, began+real-mono))
}

// update reads new lines of a process's map.
func (ps *Processes) update(pid int, s *slot, may func(fs.FileInfo) error) {
	file, root, name := new(mapFile), s.life.root, "tmp/"+mapName(s.life.inside)
	*file = s.mapFile
	err := ps.calls.Do(func() { _ = file.update(root, name, may) }) // it notes its error
	switch {
	case err == nil:
		was := s.mapFile
		if s.mapFile = *file; !ps.ownMap(pid, s, was) {
			return
		}
		if s.perf != nil {
			now, _ := ps.now()
			s.perf.done(s.life.checked, now)
		}
		if !s.gone {
			s.life.until = s.life.checked
		}
	case errors.Is(err, bounded.ErrSlow):
		s.mapFile = mapFile{} // what was read is the call's, which goes on
	}
}

// ownMap notes whether lines that were read since was are only the process's. If that cannot be
// found out, they are forgotten, and it reports false.
func (ps *Processes) ownMap(pid int, s *slot, was mapFile) bool {
	if s.life.shared || s.perf == nil || s.perf == was.perf && s.read == was.read {
		return true
	}
	shared, err := ps.ambiguous(pid, &s.life.home, s.info, s.life.checked)
	if s.life.shared = shared; err != nil {
		s.mapFile = mapFile{}
	}
	return err == nil
}

// tick is the precision of the start times of processes: USER_HZ is 100 everywhere.
const tick = tracefs.Time(time.Second / 100)

func sinceBoot(ticks uint64) tracefs.Time { return tracefs.Time(min(ticks, 1<<40)) * tick }

var (
	errOwner = errors.New("its owner is neither the process's user nor root")
	errOld   = errors.New("it is older than the process")
	errAhead = errors.New("it is from later than now: the clock was set back since, and it may be older than the process")
)

// enter opens the root directory of a process, and finds out its user and number.
func (ps *Processes) enter(pid int) (h home, err error) {
	st, err := ps.status(strconv.Itoa(pid))
	if err != nil {
		return h, err
	}
	h.user, h.inside = st.user, st.inside
	var opened struct {
		root *os.Root
		err  error
	}
	into, path := &opened, ps.path(strconv.Itoa(pid), "root")
	if err := ps.calls.Do(func() {
		// Files in it are opened with the rights of our user.
		defer privilege.RaiseIn(ps.proc).Lower()
		into.root, into.err = os.OpenRoot(path)
	}); err != nil {
		return h, fmt.Errorf("opening the root directory of process %d: %w", pid, err)
	}
	h.root = opened.root
	return h, opened.err
}

// fresh checks whether a file can be the map of a process of a user. began is by
// the clock of files: a file that was written before is another process's or
// program's. So may be one with a time that is still to come.
func fresh(user uint32, began tracefs.Time) func(fs.FileInfo) error {
	return func(info fs.FileInfo) error {
		owner, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !ok || owner.Uid != 0 && owner.Uid != user:
			return errOwner
		case tracefs.Time(info.ModTime().UnixNano()) <= began:
			return errOld
		case tracefs.Time(info.ModTime().UnixNano()) > clock(unix.CLOCK_REALTIME):
			return errAhead
		}
		return nil
	}
}

func (ps *Processes) path(process, name string) string { return ps.proc + "/" + process + "/" + name }

// status is what the status of a process says.
type status struct {
	user uint32 // the effective one
	// The process's number (which that of its first thread is) in the PID namespace that proc
	// shows, and in its own, and how many namespaces these are, with those in between.
	outside, inside, levels int
}

// status returns the status of a process (man 5 proc_pid_status), by its name in proc.
func (ps *Processes) status(process string) (st status, err error) {
	defer privilege.RaiseIn(ps.proc).Lower()
	f, err := os.Open(ps.path(process, "status"))
	if err != nil {
		return st, err
	}
	defer f.Close()
	const enough = 1 << 16
	text, err := io.ReadAll(io.LimitReader(f, enough))
	if err != nil {
		return st, err
	}
	st, ok := parseStatus(text)
	if !ok {
		return st, fmt.Errorf("the status of process %s has no user, or no number", process)
	}
	return st, nil
}

func parseStatus(text []byte) (st status, ok bool) {
	known := false
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		fields := bytes.Fields(value)
		switch {
		case string(key) == "Uid" && len(fields) > 1: // real, effective, saved, of file systems
			v, err := strconv.ParseUint(string(fields[1]), 10, 32)
			st.user, known = uint32(v), err == nil
		case string(key) == "NStgid" && len(fields) > 0: // in ours, …, in its own
			st.outside, st.inside, st.levels = number(fields[0]), number(fields[len(fields)-1]), len(fields)
		}
	}
	return st, known && st.outside > 0 && st.inside > 0
}

// number returns the number of a process, 0 if a text is none.
func number(text []byte) int {
	v, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return 0
	}
	return int(v)
}

// clocks returns the time by the trace's clock, and by the clock of file times.
func clocks() (mono, real tracefs.Time) {
	return clock(unix.CLOCK_MONOTONIC), clock(unix.CLOCK_REALTIME)
}

// bootNow returns the time since boot, in which the kernel has the start times
// of processes, at a moment of the monotonic clock.
func bootNow(mono tracefs.Time) tracefs.Time {
	return mono + clock(unix.CLOCK_BOOTTIME) - clock(unix.CLOCK_MONOTONIC)
}

func clock(id int32) tracefs.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // cannot be: every kernel has these clocks
	}
	return tracefs.Time(ts.Nano())
}
