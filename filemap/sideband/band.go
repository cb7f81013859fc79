package sideband

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// Name is the name of this way to follow mappings.
const Name = "perf side band"

// Options configure a side band.
type Options struct {
	// Clock is the trace clock whose times are wanted: mono (perf.DefaultClock),
	// mono_raw, boot or tai.
	Clock string
	// RingSize is the room for records on each CPU, in bytes; DefaultRing if
	// 0. It is made smaller if the kernel does not grant that much memory.
	RingSize int
	// Keep is for how long processes and mappings that have ended can still be
	// looked up, counted from the time that the trace has Reached; DefaultKeep
	// if 0.
	Keep time.Duration
	// Most bounds the processes that are kept, and four times Most the threads,
	// for a trace that is read ever later because its output is blocked;
	// DefaultMost if 0. Beyond that, Keep is counted from now.
	Most int
	// Log gets a line for each change, see Load. nil for none.
	Log io.Writer
	// VDSO is the build ID of the kernel's vDSO, for the log; the zero ID if
	// unknown.
	VDSO elfid.ID
	// Trace is the identifier of the trace that is saved with the log, "" for none.
	Trace string
	// ExecEvent is the number of the tracepoint sched:sched_process_exec (its file
	// id), which reports the end of an exec. 0 if unknown: then stacks from the
	// middle of an exec look like stacks of its program.
	ExecEvent uint64
	// Tracepoints report the changes that perf itself does not record, see
	// Tracepoints and Band.Unseen.
	Tracepoints []Tracepoint
	// Threads lists the threads to follow, with all that they start, where we may not
	// follow all of the machine: a user may follow threads of one's own. It is nil if that
	// is of no use. See Band.Own.
	Threads func() ([]int, error)
	// Watcher watches files for writes, nil for none. It calls
	// Written.Changed.
	Watcher FileWatcher
	Written *Written
	// Forget is called for each file that was written, as the times of files show,
	// which Watcher need not see. It may be nil.
	Forget func(procmap.FileID)
	// Proof gets what is known of the files that are mapped. It may be nil.
	Proof *openfile.Begin
	// Sys is where sysfs is mounted, /sys if empty.
	Sys string

	noIDs    bool          // the kernel is not asked for build IDs, see mayAskIDs
	patience time.Duration // see patience, which it is if 0
}

const (
	// DefaultRing is what the kernel grants each user for each CPU: the sysctl
	// kernel.perf_event_mlock_kb is 512 KiB and a page.
	DefaultRing = 512 << 10
	// DefaultKeep is far more than the records of a trace are out of order.
	DefaultKeep = 10 * time.Second
	// DefaultMost is how many PIDs there are by default (PID_MAX_DEFAULT).
	DefaultMost = 1 << 15
)

// Band is an open side band. It is for one goroutine; its History is for all.
type Band struct {
	History *History

	opt       Options
	clock     int32
	rings     rings
	names     filemap.Names
	completer completer
	comparing comparing
	// expired is when the History was last expired.
	expired tracefs.Time
	reached tracefs.Time
	drained tracefs.Time // all that happened before is known
	comms   comms

	calls   calls
	values  [6]uint64
	namings namings

	batch   perf.Batch
	rec     perf.Record
	watch   watch
	scratch procmap.Process
	found   Drained // since the last Drain
	breaks  int     // gaps until now
	unseen  int     // gaps of the soft rings
	blind   bool    // see Unseen
	hotplug perf.Hotplug
	boot    bootClock
	files   watchedFiles

	underWay underWay
	loadGaps loadGaps
}

// Open opens a ring on every CPU that is online. From then on nothing is
// missed; Refresh finds earlier mappings.
//
// errors.Is(err, perf.ErrDenied) and perf.ErrUnsupported mean that there is none
// here, perf.ErrClock that there is none with this clock.
func Open(spaces *space.Spaces, opt Options) (*Band, error) {
	clock, err := clockID(opt.Clock)
	if err != nil {
		return nil, fmt.Errorf("opening a perf side band: %w", err)
	}
	if opt.RingSize == 0 {
		opt.RingSize = DefaultRing
	}
	if opt.Keep == 0 {
		opt.Keep = DefaultKeep
	}
	if opt.Most == 0 {
		opt.Most = DefaultMost
	}
	if opt.Clock == "" {
		opt.Clock = perf.DefaultClock
	}
	if opt.Sys == "" {
		opt.Sys = "/sys"
	}
	opt.noIDs = !mayAskIDs()
	b := newBand(spaces, opt, clock)
	if opt.Log != nil {
		b.History.log = &logWriter{w: opt.Log, buf: []byte(logHead + opt.Clock + "\n")}
		if opt.Trace != "" {
			b.History.log.trace(opt.Trace)
		}
		if !opt.VDSO.IsZero() {
			b.History.log.vdso(opt.VDSO)
		}
	}
	b.completer.mounts = watchMounts(clock) // before the first record
	b.rings.findProbes()
	if err := b.rings.open(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.checkUnseen()
	b.calls.opened = b.Now()
	b.calls.flights.lose(b.calls.opened)
	b.underWay.begin(b.calls.opened)
	b.expired = b.calls.opened
	b.hotplug = perf.NewHotplug(b.opt.Sys, b.expired)
	b.reached, b.files.checked = b.expired, b.expired
	return b, nil
}

// newBand returns a Band without rings.
func newBand(spaces *space.Spaces, opt Options, clock int32) *Band {
	b := &Band{History: newHistory(spaces), opt: opt, clock: clock}
	b.rings = rings{opt: &b.opt, clock: clock, tracepoints: slices.Clone(opt.Tracepoints)}
	b.calls = calls{history: b.History, watch: &b.watch, lose: b.gap, loseSoft: b.softGap, seen: b.rings.reports}
	b.boot.look(clock)
	b.completer.wall.clock = clock
	b.files = watchedFiles{history: b.History, clock: clock, completer: &b.completer,
		watcher: opt.Watcher, reported: opt.Written, forget: opt.Forget, proof: newProof(opt.Proof)}
	b.files.freshFiles.moved = b.calls.heaps.isMoved
	b.calls.watchFile = b.files.watchAgain
	b.underWay.begin(0)
	return b
}

// Now returns the time by the clock of the side band.
func (b *Band) Now() tracefs.Time { return perf.Now(b.clock) }

// RingSize returns the room for records on each CPU, in bytes, that the kernel
// gave at least.
func (b *Band) RingSize() int {
	size := b.rings.list[0].Size()
	for _, r := range b.rings.list {
		if !r.soft {
			size = min(size, r.Size())
		}
	}
	return size
}

// BuildIDs reports whether the kernel sends build IDs (Linux 5.12 and later).
func (b *Band) BuildIDs() bool { return b.rings.list[0].features.buildID }

// CPUs returns the CPUs that have a ring.
func (b *Band) CPUs() []int {
	var list []int
	for _, r := range b.rings.list {
		if !r.soft {
			list = append(list, r.CPU)
		}
	}
	return list
}

// FDs are descriptors to poll(2): one is readable when the ring of a CPU is
// full to a quarter, which is a good time for Drain, see perf.Poll. They change when
// CPUs go online or offline.
func (b *Band) FDs() []int {
	var list []int
	for _, r := range b.rings.list {
		list = append(list, r.FD())
	}
	return list
}

// Close releases all rings and ends the log.
func (b *Band) Close() error {
	if b.drained > 0 {
		b.History.log.whole("until", b.drained) // also after a Drain that found nothing
	}
	err := b.History.log.flush()
	for _, r := range b.rings.list {
		err = errors.Join(err, r.Close())
	}
	b.rings.list = nil
	b.files.stamps.close()
	b.completer.mounts.close()
	return err
}
