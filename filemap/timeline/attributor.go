// Package timeline gives frames their files by address spaces that are known
// over time: the process's mappings at the moment of the stack, not now.
//
// It is the Attributor of live tracing, and of replaying what live tracing saved.
// A stack is attributed by what was in force at its time, so it makes no difference
// when that happens, or whether the process is still there.
package timeline

import (
	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/proof"
	"ustack/filemap/rawstack"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// Threads finds the process that a thread belonged to.
type Threads interface {
	// PID returns the process of a thread at a time; ok is false if the thread is
	// unknown. late means that the thread was first seen after that time.
	PID(tid int, t tracefs.Time) (pid int, late, ok bool)
}

// Querier reads the mappings of a process that still runs.
type Querier interface {
	// Ask notes what a process has at an address now in the Spaces, if it is
	// still the program that it was at t. It reports whether it did, which it
	// does not do for the same place over and over.
	Ask(pid int, addr uint64, t tracefs.Time) bool
	// Meet does the same for all mappings of a process that is not known yet, by the
	// number of any of its threads, and notes which these are.
	Meet(tid int, t tracefs.Time) bool
}

// Options configure an Attributor.
type Options struct {
	Spaces  *space.Spaces
	Threads Threads
	// Querier looks up addresses outside of all known mappings; nil means that they
	// stay unknown.
	Querier Querier
	// Late marks all files as late: changes of the spaces are not reported by the
	// kernel, but found by reading processes.
	Late bool
	// Doubtful reports whether the spaces may be wrong at a time, from when on
	// nothing is missed any more, and until when they may be wrong (space.Forever:
	// not over yet). nil means that they never are.
	Doubtful func(tracefs.Time) (missed, until tracefs.Time, doubtful bool)
	// Gap reports whether anything that happened between two times may be
	// missing. nil if nothing ever is.
	Gap func(from, to tracefs.Time) bool
	// Unsure reports whether mappings can have gone or moved unseen by a time:
	// the files of code are late then. nil if there is no such time.
	Unsure func(tracefs.Time) bool
	// Lost is Doubtful for changes that only tracepoints report (munmap, mremap), if
	// records of them are lost. Missing reports whether such a record of the time between
	// two times is. They are nil together.
	Lost    func(tracefs.Time) (missed, until tracefs.Time, doubtful bool)
	Missing func(from, to tracefs.Time) bool
	// Unseen reports whether mappings can have gone or moved unseen (munmap,
	// mremap) between two times. nil if they always can.
	Unseen func(from, to tracefs.Time) bool
	// Kept reports whether a process had all files at the second time that it had mapped at
	// the first one, or had as code. nil if that is unknown.
	Kept func(pid int, from, to tracefs.Time, code bool) bool
	// Foreign reports whether the trace may have another clock than the Spaces have:
	// then all files are late. nil if it has the same.
	Foreign func() bool
	// Stacks are the raw stacks of threads, nil if there are none.
	Stacks *rawstack.Stacks
	// Stamp is how exact time stamps are.
	Stamp Precision
	// BuildID returns the build ID of a file of the Spaces, the zero ID if it is not known. nil
	// means that the file has it.
	BuildID func(*space.File) elfid.ID
}

// Precision is how far before and after its time stamp a record can be.
type Precision struct{ Before, After tracefs.Time }

// TextStamp is the Precision of the kernel's text: microseconds, to the nearest
// (ns2usecs in kernel/trace/trace.h).
func TextStamp() Precision { return Precision{Before: 500, After: 499} }

// Attributor attributes frames by address spaces over time. It implements
// resolve.Attributor.
type Attributor struct {
	opt    Options
	files  files
	recent *recent
	pins   *proof.Pins[place]
	codes  codes
	// segments are the code segments of files.
	segments segments
	late     bool // of the stack at hand: it may be of another process or time
	// Of the stack at hand, too.
	unsure bool         // as late, but for Options.Late
	alien  bool         // unsure, and not only of what can go unseen
	before tracefs.Time // how far before its time it can be
	space  *space.Space // of its process
	raws   []rawstack.Stack
	raised []uint64   // raw addresses of its first frames, 0 for none
	proofs []bool     // frames that have got the file of their raw address
	same   []identity // that these prove
	found  *verdict   // of the address looked up last
	looked verdict    // that found is, unless it is remembered
	query  query      // the frame at hand
	learnt [1 << learntBits]lesson
	heard  heard
}

// New returns an Attributor.
func New(opt Options) *Attributor {
	j := &Attributor{opt: opt, files: newFiles(), recent: new(recent), segments: make(segments)}
	j.files.buildID = opt.BuildID
	j.pins = proof.NewPins(places{j})
	return j
}

// Attribute implements resolve.Attributor.
func (j *Attributor) Attribute(s *resolve.Query) {
	if !s.Timed {
		return // its clock is not the one of the spaces
	}
	j.before = j.opt.Stamp.Before
	if s.Event != 0 {
		j.before += s.Time - s.Event // the stack is the event's
	}
	pid, sp, late := j.process(int(s.TID), s.Time)
	if j.opt.Kept != nil {
		j.hear(pid, s)
	}
	late = late || j.Foreign(s)
	until, doubtful := j.doubtful(sp, s.Time)
	j.alien = late || doubtful
	j.unsure = j.alien || j.opt.Unsure != nil && j.opt.Unsure(s.Time)
	j.late = j.opt.Late || j.unsure
	if sp == nil {
		j.unread(pid, s, doubt{is: doubtful, until: until})
		return
	}
	stays := doubtful && j.stays(int(s.TID), pid, until)
	d := doubt{is: doubtful, until: until, stays: stays}
	ofAddress := j.lost(int(s.TID), pid, sp, s.Time, d)
	loading := sp.Loading(s.Time-j.before, s.Time+j.opt.Stamp.After+1)
	identified, narrow := false, narrow(sp, s)
	for k := range s.Frames {
		f, o := &s.Frames[k], &s.Attributions[k]
		switch {
		case f.Form == tracefs.FormIdentifier:
			identified = true
		case f.Form == tracefs.FormPlain && o.Reason == filemap.NoAddressSpace:
			switch {
			case narrow && (k > 0 || s.Continued) && !f.Followed():
				*o = resolve.Unnamed(filemap.Unreadable)
				continue
			case loading:
				j.loading(f.Address(s.Text), o)
			case ofAddress.is:
				j.doubted(sp, f.Address(s.Text), s.Time, ofAddress, o)
			default:
				sp = j.address(pid, sp, f.Address(s.Text), s.Time, o)
			}
			if why := s.Why(k); why != nil {
				j.landed(why, pid, s.Time)
			}
		}
	}
	if identified {
		j.identifiers(pid, sp, s, d)
	}
}

// Foreign reports whether a stack may be of another trace than the one that the Spaces
// are of, with another clock.
func (j *Attributor) Foreign(s *resolve.Query) bool {
	return s.Joined || j.opt.Foreign != nil && j.opt.Foreign()
}

// unread is about a stack of a process of which nothing is known at any time. What
// is proven of the identifiers in other processes holds for it, too. Where processes
// are read, it is one that ended before.
func (j *Attributor) unread(pid int, s *resolve.Query, d doubt) {
	if j.opt.Late {
		return
	}
	j.same, j.space = j.same[:0], nil
	for k := range s.Frames {
		if f := &s.Frames[k]; f.Form == tracefs.FormIdentifier {
			j.identifier(pid, nil, f, 0, s, d, s.Why(k), &s.Attributions[k])
		}
	}
}

// doubtful reports whether what is known of a process at a time may be wrong, and
// until when. A program that began when nothing was missed any more is known.
func (j *Attributor) doubtful(sp *space.Space, t tracefs.Time) (until tracefs.Time, doubtful bool) {
	_, until, doubtful = j.doubt(j.opt.Doubtful, sp, t)
	return until, doubtful
}

// doubt is doubtful by one of the Options, nil for no doubt. Nothing is missed any more from
// missed on.
func (j *Attributor) doubt(by func(tracefs.Time) (missed, until tracefs.Time, doubtful bool), sp *space.Space, t tracefs.Time) (missed, until tracefs.Time, doubtful bool) {
	if by == nil {
		return 0, 0, false
	}
	missed, until, doubtful = by(t)
	if !doubtful && j.before > j.opt.Stamp.Before {
		missed, until, doubtful = by(t - j.before)
	}
	if !doubtful || until == space.Forever {
		return missed, until, doubtful
	}
	return missed, until, !j.knownSince(sp, t+j.opt.Stamp.After, missed)
}

// maxForks bounds how many generations of parents are searched.
const maxForks = 64

// knownSince reports whether the program that a process was at a time began when
// nothing was missed any more. A process that was forked is what its parent was.
func (j *Attributor) knownSince(sp *space.Space, t, missed tracefs.Time) bool {
	for range maxForks {
		began, exactly := sp.BeganExactly(t)
		if !exactly || began < missed {
			return false
		}
		v := sp.At(began)
		if v.Parent == 0 {
			return true
		}
		sp, t = j.opt.Spaces.Space(v.Parent), began
	}
	return false
}

// stays reports whether a thread is one of the process at the end of the doubt.
func (j *Attributor) stays(tid, pid int, until tracefs.Time) bool {
	now, late, ok := j.opt.Threads.PID(tid, until)
	return ok && !late && now == pid
}

// process is the process of a thread and its address space, nil if unknown.
// late means that it may be another one.
func (j *Attributor) process(tid int, t tracefs.Time) (pid int, sp *space.Space, late bool) {
	pid, late, ok := j.opt.Threads.PID(tid, t+j.opt.Stamp.After)
	if !ok { // it can have ended within the precision of the time stamp
		pid, late, ok = j.opt.Threads.PID(tid, t-j.opt.Stamp.Before)
	}
	if !ok {
		pid, late = tid, true // the first thread of a process that was not seen to begin
	}
	sp = j.opt.Spaces.Space(pid)
	if sp == nil && j.opt.Querier != nil && j.opt.Querier.Meet(pid, t) {
		if of, _, ok := j.opt.Threads.PID(tid, t+j.opt.Stamp.After); ok {
			pid = of // it was no first thread
		}
		sp = j.opt.Spaces.Space(pid)
	}
	return pid, sp, late
}
