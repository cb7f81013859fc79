package perf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
)

// Record is one record of a ring (enum perf_event_type of
// include/uapi/linux/perf_event.h). Which fields are set depends on its type.
type Record struct {
	Type uint32 // unix.PERF_RECORD_…
	Misc uint16 // unix.PERF_RECORD_MISC_…
	// Time is when it happened, on CPU.
	Time tracefs.Time
	CPU  uint32
	// PID and TID are the process and thread it is about (in SAMPLE, that it was
	// taken of); 0 or less if they are outside of our PID namespace.
	PID, TID int
	// ParentPID and ParentTID are the process and thread that made it (FORK).
	ParentPID, ParentTID int
	// Of MMAP2; MMAP has Addr and Len only. Offset is what the kernel calls pgoff, in
	// bytes. Either BuildID is set, at most 20 bytes of the decoded data, or the numbers
	// of the device, Inode and InodeGeneration may be.
	Addr, Len, Offset uint64
	Prot, Flags       uint32
	Major, Minor      uint32
	Inode             uint64
	InodeGeneration   uint64
	BuildID           []byte
	// Beside: the mapping is of a ring beside the one that has those of code, see
	// Ring.WithoutTasks.
	Beside bool
	// Name is the name in MMAP2 or COMM. It lies in the bytes that were
	// decoded.
	Name []byte
	// Raw is the record of a tracepoint (SAMPLE); nil for the end of an exec. It
	// lies in the bytes that were decoded.
	Raw []byte
	// Lost is how many records the kernel had no room for (LOST,
	// LOST_SAMPLES).
	Lost uint64
	// LostFrom is, of LOST in a perf.data, the time before which none of them was.
	LostFrom tracefs.Time
}

// Layout is the common part of all records of a ring: TID, TIME and CPU. The
// zero value is for events without ID.
type Layout struct {
	// ID: there is the number of the event too (Event.ID).
	ID bool
}

// Sizes of parts of a record.
const (
	headerSize = 8
	idsSize    = 24 // pid, tid; time; cpu and 4 bytes of nothing
	mmapSize   = 24 // from pid to len
	mmap2Size  = 64 // from pid to flags
	commSize   = 8  // pid, tid
	taskSize   = 24 // pid, ppid, tid, ptid, time
	lostSize   = 16 // id, lost
	maxBuildID = 20 // BUILD_ID_SIZE_MAX
)

// idsSize returns the size of the common part.
func (l Layout) idsSize() int {
	if l.ID {
		return idsSize + 8
	}
	return idsSize
}

// ErrRecord: the bytes are no record of a requested kind.
var ErrRecord = errors.New("malformed perf record")

func bad(what string, n int) error { return fmt.Errorf("%w: %s (%d bytes)", ErrRecord, what, n) }

// size returns the length of the record that b begins with.
func size(b []byte) (int, error) {
	if len(b) < headerSize {
		return 0, bad("its header is cut off", len(b))
	}
	n := int(binary.NativeEndian.Uint16(b[6:]))
	switch {
	case n < headerSize || n%8 != 0:
		return 0, bad("its header gives an impossible size", n)
	case n > len(b):
		return 0, bad("it is cut off", len(b))
	}
	return n, nil
}

// ids returns the common part of a record. It ends the record (sample_id_all of
// man 2 perf_event_open), but for a sample, which begins with it.
func (l Layout) ids(b []byte) []byte {
	if recordType(b) == unix.PERF_RECORD_SAMPLE {
		return b[headerSize:][:l.idsSize()]
	}
	return b[len(b)-l.idsSize():]
}

// when returns the time of a whole record.
func (l Layout) when(b []byte) (tracefs.Time, error) {
	if len(b) < headerSize+l.idsSize() {
		return 0, bad("it has no time", len(b))
	}
	t := binary.NativeEndian.Uint64(l.ids(b)[8:])
	if t > math.MaxInt64 {
		return 0, bad("its time is impossible", len(b))
	}
	return tracefs.Time(t), nil
}

// Decode decodes the record that b begins with and returns its length. Records
// of other types have only type, time and CPU. The error wraps ErrRecord.
func (l Layout) Decode(b []byte, r *Record) (int, error) {
	n, err := size(b)
	if err != nil {
		return 0, err
	}
	e := binary.NativeEndian
	*r = Record{Type: e.Uint32(b), Misc: e.Uint16(b[4:])}
	if r.Time, err = l.when(b[:n]); err != nil {
		return 0, err
	}
	ids := l.ids(b[:n])
	r.CPU, r.Beside = e.Uint32(ids[len(ids)-8:]), isBeside(b[:n])
	body := b[headerSize : n-len(ids)]
	switch r.Type {
	case unix.PERF_RECORD_MMAP:
		err = r.mmap(body)
	case unix.PERF_RECORD_MMAP2:
		err = r.mmap2(body)
	case unix.PERF_RECORD_COMM:
		err = r.comm(body)
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		err = r.task(body)
	case unix.PERF_RECORD_SAMPLE:
		r.ids(ids, ids[4:])
		err = r.sample(b[headerSize+len(ids) : n])
	case unix.PERF_RECORD_LOST:
		if len(body) < lostSize {
			return 0, bad("a loss without a number", n)
		}
		r.Lost = e.Uint64(body[8:])
	case unix.PERF_RECORD_LOST_SAMPLES:
		if len(body) < lostSize-8 {
			return 0, bad("a loss without a number", n)
		}
		r.Lost = e.Uint64(body)
	}
	return n, err
}

// ids are the process and the thread that a record is about.
func (r *Record) ids(pid, tid []byte) {
	r.PID, r.TID = int(int32(binary.NativeEndian.Uint32(pid))), int(int32(binary.NativeEndian.Uint32(tid)))
}

func (r *Record) mmap(b []byte) error {
	if len(b) < mmapSize {
		return bad("a mapping is too short", len(b))
	}
	r.ids(b, b[4:])
	r.Addr, r.Len = binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])
	if r.Addr+r.Len < r.Addr || r.Len == 0 {
		return bad("a mapping has impossible addresses", len(b))
	}
	return nil
}

func (r *Record) mmap2(b []byte) error {
	if len(b) < mmap2Size {
		return bad("a mapping is too short", len(b))
	}
	e := binary.NativeEndian
	if err := r.mmap(b); err != nil {
		return err
	}
	r.Offset = e.Uint64(b[24:])
	// The kernel leaves the bit set for the events after the one that it set it for
	// (perf_event_mmap_output in kernel/events/core.c).
	if r.Misc&unix.PERF_RECORD_MISC_MMAP_BUILD_ID != 0 && !r.Beside {
		n := int(b[32])
		if n > maxBuildID {
			return bad("a build ID is too long", n)
		}
		r.BuildID = b[36 : 36+n]
	} else {
		r.Major, r.Minor = e.Uint32(b[32:]), e.Uint32(b[36:])
		r.Inode, r.InodeGeneration = e.Uint64(b[40:]), e.Uint64(b[48:])
	}
	r.Prot, r.Flags = e.Uint32(b[56:]), e.Uint32(b[60:])
	r.Name = upToNUL(b[mmap2Size:])
	return nil
}

// sample reads PERF_SAMPLE_RAW, if the sample has it.
func (r *Record) sample(b []byte) error {
	const sizeOf = 4
	if len(b) == 0 {
		return nil
	}
	n := uint64(binary.NativeEndian.Uint32(b))
	if n > uint64(len(b)-sizeOf) {
		return bad("a sample is cut off", len(b))
	}
	r.Raw = b[sizeOf:][:n]
	return nil
}

func (r *Record) comm(b []byte) error {
	if len(b) < commSize {
		return bad("a name is too short", len(b))
	}
	r.ids(b, b[4:])
	r.Name = upToNUL(b[commSize:])
	return nil
}

func (r *Record) task(b []byte) error {
	if len(b) < taskSize {
		return bad("a fork or exit is too short", len(b))
	}
	r.ids(b, b[8:])
	r.ParentPID = int(int32(binary.NativeEndian.Uint32(b[4:])))
	r.ParentTID = int(int32(binary.NativeEndian.Uint32(b[12:])))
	return nil
}

func upToNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// recordType returns the type of a whole record.
func recordType(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }

// isLoss reports whether a whole record counts records that were lost.
func isLoss(b []byte) bool {
	t := recordType(b)
	return t == unix.PERF_RECORD_LOST || t == unix.PERF_RECORD_LOST_SAMPLES
}

// isBeside reports whether a whole record is of a mapping, and marked.
func isBeside(b []byte) bool { return recordType(b) == unix.PERF_RECORD_MMAP2 && b[len(b)-1] != 0 }

// markBeside marks a whole record if it is of a mapping, in a byte that the kernel sets to 0
// (res of struct sample_id in man 2 perf_event_open).
func markBeside(b []byte) {
	if recordType(b) == unix.PERF_RECORD_MMAP2 {
		b[len(b)-1] = 1
	}
}

// Data reports whether the record is of a mapping that is not executable.
func (r *Record) Data() bool {
	return r.Type == unix.PERF_RECORD_MMAP || r.Type == unix.PERF_RECORD_MMAP2 && r.Misc&unix.PERF_RECORD_MISC_MMAP_DATA != 0
}

// isTask reports whether a whole record is of a fork or an exit.
func isTask(b []byte) bool {
	t := recordType(b)
	return t == unix.PERF_RECORD_FORK || t == unix.PERF_RECORD_EXIT
}

// Exec reports whether the record is a process executing another program
// (COMM; begin_new_exec in fs/exec.c).
func (r *Record) Exec() bool {
	return r.Type == unix.PERF_RECORD_COMM && r.Misc&unix.PERF_RECORD_MISC_COMM_EXEC != 0
}

// Thread reports whether the record is of a thread being made in a process that
// was there (FORK).
func (r *Record) Thread() bool { return r.Type == unix.PERF_RECORD_FORK && r.PID == r.ParentPID }

// number returns the number of the event that a whole record is of, 0 if the
// layout has none.
func (l Layout) number(b []byte) uint64 {
	if !l.ID {
		return 0
	}
	return binary.NativeEndian.Uint64(l.ids(b)[16:])
}

// cpu returns the CPU that a whole record is of.
func (l Layout) cpu(b []byte) int {
	ids := l.ids(b)
	return int(binary.NativeEndian.Uint32(ids[len(ids)-8:]))
}
