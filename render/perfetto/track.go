package perfetto

import (
	"fmt"

	"ustack/tracefs"
)

// Thread is a thread as the trace has it. PID is its process,
// tracefs.NoTID if unknown.
type Thread struct {
	PID, TID int32
	Comm     string
}

// Tracks are numbered by what they are of, so that the same thread has the same
// number in any trace: two bits for the kind, 31 for the process, 31 for the
// thread.
const (
	tracksOfUnknown Track = iota << 62 // the group of threads of unknown processes, lost events
	tracksOfProcess
	tracksOfThread
	tracksOfOrphan // a thread of an unknown process
)

const (
	orphans    = tracksOfUnknown + 1
	lostEvents = tracksOfUnknown + 2
	// lostOnCPU is the first of the tracks of CPUs, 1<<24 for each ring buffer.
	lostOnCPU = tracksOfUnknown + 1<<32
)

// maxTracks is how many tracks are remembered. Then all are announced again, which
// is no harm.
const maxTracks = 1 << 16

const maxID = 1<<31 - 1

// Thread returns a thread's track; at is when there is something on it.
//
// A thread whose process is unknown has a track that is no thread's in the eyes of
// a reader: those have a process.
func (w *Writer) Thread(t Thread, at tracefs.Time) Track {
	comm := t.Comm
	if comm == tracefs.CommUnknown {
		comm = ""
	}
	if t.PID <= 0 && t.TID > 0 && w.pids != nil {
		if pid, ok := w.pids(t.TID); ok {
			t.PID = pid
		}
	}
	if t.PID <= 0 || t.TID <= 0 {
		return w.orphan(t.TID, comm, at)
	}
	process := tracksOfProcess + Track(t.PID)<<31
	leader := ""
	if t.PID == t.TID {
		leader = comm
	}
	if w.announce(process, leader) {
		var p message
		p.uint(processPID, uint64(t.PID))
		if leader != "" {
			p.text(processName, leader)
		}
		w.descriptor(process, at, "", trackProcess, p, 0)
	}
	track := tracksOfThread + Track(t.PID)<<31 + Track(t.TID)
	if w.announce(track, comm) {
		var p message
		p.uint(threadPID, uint64(t.PID))
		p.uint(threadTID, uint64(t.TID))
		if comm != "" {
			p.text(threadName, comm)
		}
		w.descriptor(track, at, "", trackThread, p, 0)
	}
	return track
}

// Name returns the name by which a thread has been announced, "" if it was
// unknown: a thread can have several, and its track has one.
func (w *Writer) Name(t Track) string { return w.tracks[t] }

func (w *Writer) orphan(tid int32, comm string, at tracefs.Time) Track {
	track := tracksOfOrphan + Track(tid)&maxID
	if w.announce(track, comm) {
		name := fmt.Sprintf("%s %d", comm, tid)
		if comm == "" {
			name = fmt.Sprintf("thread %d", tid)
		}
		if w.announce(orphans, "") {
			w.descriptor(orphans, at, "threads of unknown processes", 0, nil, 0)
		}
		w.descriptor(track, at, name, 0, nil, orphans)
	}
	return track
}

// Lost returns the track of what was lost of one CPU, or of an unknown CPU, of one
// ring buffer.
func (w *Writer) Lost(buffer int, cpu int32, at tracefs.Time) Track {
	const cpus = 1 << 24
	name := fmt.Sprintf("CPU %d", cpu)
	if buffer > 0 {
		name += fmt.Sprintf(" of buffer %d", buffer)
	}
	track := lostOnCPU + Track(buffer)*cpus + Track(cpu)&(cpus-1)
	if cpu < 0 {
		track, name = lostOnCPU-1, "some CPU"
	}
	if w.announce(track, "") {
		if w.announce(lostEvents, "") {
			w.descriptor(lostEvents, at, "lost events", 0, nil, 0)
		}
		w.descriptor(track, at, name, 0, nil, lostEvents)
	}
	return track
}

// announce reports whether a track has to be announced: it is new, or has been
// without a name.
func (w *Writer) announce(t Track, name string) bool {
	if known, ok := w.tracks[t]; ok && (known != "" || name == "") {
		return false
	}
	if len(w.tracks) >= maxTracks {
		clear(w.tracks)
	}
	w.tracks[t] = name
	return true
}

// descriptor writes a TrackDescriptor. kind is the field of what it is of, 0 if it
// only has a name.
func (w *Writer) descriptor(t Track, at tracefs.Time, name string, kind field, of message, parent Track) {
	w.room()
	w.body = w.body[:0]
	m := &w.body
	m.uint(trackUUID, uint64(t))
	if parent != 0 {
		m.uint(trackParent, uint64(parent))
	}
	if kind != 0 {
		m.bytes(kind, of)
	} else {
		m.text(trackName, name)
		m.uint(trackMerge, mergeNone)
	}
	w.write(at, packetTrackDescriptor)
}
