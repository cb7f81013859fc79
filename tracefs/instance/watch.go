package instance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Change is a setting of an instance that another user has written.
type Change struct {
	// File is the control file, as seen from the instance's directory; empty if
	// the kernel's queue was full.
	File string
	// Was and Now are the old and the new value, empty if they are equal, or
	// not compared.
	Was, Now string
}

// String returns "FILE (WAS to NOW)".
func (c Change) String() string {
	switch {
	case c.File == "":
		return "many files"
	case c.Was == c.Now:
		return c.File
	}
	return fmt.Sprintf("%s (%s to %s)", c.File, c.Was, c.Now)
}

// Watch notices what other users do to the settings of an instance: inotify(7)
// works on tracefs, and a few values are compared besides. It is to be opened
// when the instance is set up, and must not be open when it is removed (Remove
// closes it). Its methods may be called by several goroutines.
type Watch struct {
	reading
	inotify int // -1 if there is none
	clock   int // trace_clock
	names   map[int32]string
	config  Config
	// known are the values as we have left them, by file.
	known    map[string]string
	first    string // the options
	compared time.Time
	looked   time.Time
	buf      [4 << 10]byte
}

// compareEvery is how often values are compared whatever inotify says.
const compareEvery = time.Second

const (
	fileClock   = "trace_clock"
	fileOn      = "tracing_on"
	fileOptions = "trace_options"
	fileSize    = "buffer_size_kb"
	dirOptions  = "options"
)

// compared are the files whose values are compared.
var comparedFiles = [...]string{fileClock, fileOn, fileOptions, fileSize}

// watchedFiles are watched by themselves, and not with their directory, in which
// trace_marker may be busy. Writing to trace empties the buffer.
var watchedFiles = [...]string{fileClock, fileOn, fileOptions, fileSize, "trace", "set_event", onlyPIDs, notPIDs,
	"tracing_cpumask", "current_tracer", "buffer_subbuf_size_kb"}

// maxWatched bounds the events whose directories are watched; inotify keeps each
// of them in memory.
const maxWatched = 1024

// Watch begins to watch the settings, and the settings of these events, after
// Configure.
func (i *Instance) Watch(c Config, events []Event) (*Watch, error) {
	if c.Clock == "" {
		c.Clock = defaultClock
	}
	w := &Watch{inotify: -1, names: make(map[int32]string), known: make(map[string]string), config: c}
	w.compared, w.looked = time.Now(), time.Now()
	if err := w.begin(i, func() error { return w.open(events) }); err != nil {
		return nil, fmt.Errorf("watching the settings of the instance: %w", err)
	}
	return w, nil
}

func (w *Watch) open(events []Event) (err error) {
	if w.clock, err = w.add(w.in.dir.path(fileClock)); err != nil {
		return err
	}
	if fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC); err == nil {
		w.inotify = fd // else too many are open (fs.inotify.max_user_instances): values are compared
		w.fds = append(w.fds, fd)
		w.in.ownWrites.begin()
		w.watchAll(events)
	}
	for _, name := range comparedFiles {
		value, err := w.in.dir.read(name)
		if err != nil && name != fileOptions {
			return err
		}
		w.known[name] = value
	}
	if _, now := words(w.known[fileClock]); now != w.config.Clock {
		w.known[fileClock] = "[" + w.config.Clock + "]" // it has been changed already
	}
	w.first = w.known[fileOptions]
	return nil
}

// watchAll watches the files that exist. Others cannot be changed.
func (w *Watch) watchAll(events []Event) {
	list := append([]string{dirOptions, "events"}, watchedFiles[:]...)
	systems := make(map[string]bool)
	for n, e := range events {
		if n == maxWatched {
			break
		}
		if !systems[e.System] {
			systems[e.System] = true
			list = append(list, "events/"+e.System)
		}
		list = append(list, strings.TrimSuffix(e.file(""), "/"))
	}
	cpus, _ := perCPU(w.in.dir)
	for _, cpu := range cpus {
		at := "per_cpu/cpu" + strconv.Itoa(cpu)
		list = append(list, at+"/"+fileSize, at+"/trace")
	}
	for _, name := range list {
		if wd, err := unix.InotifyAddWatch(w.inotify, w.in.dir.path(name), unix.IN_MODIFY); err == nil {
			w.names[int32(wd)] = name
		}
	}
}

// Look returns the changes of other users since the last call, nil if there are
// none, or the instance is gone. A clock that has been changed before the call
// is always found; the rest when the write(2) has returned.
func (w *Watch) Look() []Change {
	w.using.Lock()
	defer w.using.Unlock()
	if w.closed.Load() {
		return nil
	}
	w.in.ownWrites.under.Lock()
	defer w.in.ownWrites.under.Unlock()
	compare := time.Since(w.compared) >= compareEvery || !w.sameClock()
	touched := w.touched()
	since := w.looked.Add(-lately)
	w.looked = time.Now()
	if len(touched) == 0 && !compare {
		return nil
	}
	var changes []Change
	if compare {
		w.compared = time.Now()
	}
	for _, name := range comparedFiles {
		if compare || slices.ContainsFunc(touched, func(t string) bool { return t == name || name == fileOptions && isOption(t) }) {
			changes = append(changes, w.compare(name, since)...)
		}
	}
	for _, name := range touched {
		if _, own := w.in.wrote(name, since); !own && !slices.ContainsFunc(changes, func(c Change) bool { return sameSetting(c.File, name) }) {
			changes = append(changes, Change{File: name})
		}
	}
	w.in.ownWrites.forget(touched) // what comes next is another one
	return changes
}

func isOption(name string) bool { return strings.HasPrefix(name, dirOptions+"/") }

// sameSetting reports whether two files have the same setting: an option has
// two.
func sameSetting(a, b string) bool {
	return a == b || a == fileOptions && isOption(b)
}

// sameClock reads the clock itself.
func (w *Watch) sameClock() bool {
	n, err := unix.Pread(w.clock, w.buf[:], 0)
	return err != nil || string(w.buf[:n]) == w.known[fileClock]
}

// touched returns the files that have been written, each once.
func (w *Watch) touched() (list []string) {
	for w.inotify >= 0 {
		n, err := unix.Read(w.inotify, w.buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return list
		}
		for rest := w.buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			var name string
			name, rest = w.event(rest)
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// event takes a struct inotify_event (man 7 inotify). The name is empty if the
// queue was full.
func (w *Watch) event(b []byte) (name string, rest []byte) {
	wd := int32(binary.NativeEndian.Uint32(b))
	end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
	end = min(end, len(b))
	name = w.names[wd]
	if file, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0}); len(file) > 0 {
		name += "/" + string(file)
	}
	return name, b[end:]
}

// compare reads a file and returns how it differs from the value that we have
// left there. The new value is known from then on. Values that we have written
// since are no changes.
func (w *Watch) compare(name string, since time.Time) []Change {
	now, err := w.in.dir.read(name)
	if err != nil {
		return nil
	}
	was := w.known[name]
	if was == now {
		return nil
	}
	w.known[name] = now
	if name == fileOptions {
		return slices.DeleteFunc(optionChanges(was, now), func(c Change) bool {
			file := dirOptions + "/" + strings.TrimPrefix(c.Now, "no")
			_, own := w.in.wrote(file, since)
			word, written := w.in.wrote(fileOptions, since)
			return own || written && word == c.Now
		})
	}
	if own, written := w.in.wrote(name, since); written && own == strings.TrimSpace(now) {
		return nil
	}
	c := Change{File: name, Was: strings.TrimSpace(was), Now: strings.TrimSpace(now)}
	if name == fileClock {
		_, c.Was = words(was)
		_, c.Now = words(now)
	}
	return []Change{c}
}

// optionChanges returns the options that differ.
func optionChanges(was, now string) (changes []Change) {
	old := strings.Fields(was)
	for _, option := range strings.Fields(now) {
		before, off := strings.CutPrefix(option, "no")
		if !off {
			before = "no" + option
		}
		if slices.Contains(old, before) && !slices.Contains(old, option) {
			changes = append(changes, Change{File: fileOptions, Was: before, Now: option})
		}
	}
	return changes
}

// Restore puts the clock and the options back that others have changed: the
// trace cannot be read without. The buffer is empty then, as it is whenever the
// clock is set (tracing_set_clock in kernel/trace/trace.c), so no reader should
// have it open. It leaves alone which events are traced, and whether they are.
func (w *Watch) Restore() error {
	if err := w.restoreOptions(); err != nil {
		return fmt.Errorf("putting the settings of the instance back: %w", err)
	}
	if err := w.in.setClock(w.config.Clock); err != nil {
		return fmt.Errorf("putting the settings of the instance back: %w", err)
	}
	w.using.Lock()
	defer w.using.Unlock()
	for _, name := range [...]string{fileClock, fileOptions} {
		if value, err := w.in.read(name); err == nil {
			w.known[name] = value
		}
	}
	return nil
}

// restoreOptions sets the options to their values when the watch was opened.
func (w *Watch) restoreOptions() error {
	now, err := w.in.read(fileOptions)
	if err != nil {
		return err
	}
	for _, c := range optionChanges(w.first, now) {
		name, off := strings.CutPrefix(c.Was, "no")
		if _, err := w.in.SetOption(name, !off); err != nil {
			return err
		}
	}
	return nil
}
