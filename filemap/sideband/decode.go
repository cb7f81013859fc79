package sideband

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
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
	// PID and TID are those of the process and thread it is about (of SAMPLE,
	// that it was taken of); 0 or less
	// if they are outside of our PID namespace.
	PID, TID int
	// ParentPID and ParentTID are those of the thread that made it (FORK).
	ParentPID, ParentTID int
	// Of MMAP2. Offset is what the kernel calls pgoff, in bytes. Either
	// BuildID is set or Dev, Inode and InodeGeneration may be.
	Addr, Len, Offset uint64
	Prot, Flags       uint32
	Dev               procmap.Dev
	Inode             uint64
	InodeGeneration   uint64
	BuildID           elfid.ID
	// Name is that of MMAP2 or COMM. It lies in the bytes that were decoded.
	Name []byte
	// Raw is what a tracepoint has recorded (SAMPLE); nil for the end of an exec.
	// It lies in the bytes that were decoded.
	Raw []byte
	// Lost is how many records the kernel had no room for (LOST,
	// LOST_SAMPLES).
	Lost uint64
}

// Sizes of parts of a record.
const (
	headerSize  = 8
	trailerSize = 24 // pid, tid; time; cpu and 4 bytes of nothing (sampleType)
	mmap2Size   = 64 // from pid to flags
	commSize    = 8  // pid, tid
	taskSize    = 24 // pid, ppid, tid, ptid, time
	lostSize    = 16 // id, lost
	// maxRecord is more than any record of ours has: a name of PATH_MAX and
	// the rest.
	maxRecord = 4096 + 256
)

// ErrRecord: the bytes are no record of ours.
var ErrRecord = errors.New("malformed perf record")

func bad(what string, n int) error { return fmt.Errorf("%w: %s (%d bytes)", ErrRecord, what, n) }

// size is the length of the record that b begins with.
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

// trailer is what sampleType asks for. It ends each record (sample_id_all of man 2
// perf_event_open), but for a sample, which begins with it.
func trailer(b []byte) []byte {
	if recordType(b) == unix.PERF_RECORD_SAMPLE {
		return b[headerSize:][:trailerSize]
	}
	return b[len(b)-trailerSize:]
}

// when is the time of a whole record.
func when(b []byte) (tracefs.Time, error) {
	if len(b) < headerSize+trailerSize {
		return 0, bad("it has no time", len(b))
	}
	t := binary.NativeEndian.Uint64(trailer(b)[8:])
	if t > math.MaxInt64 {
		return 0, bad("its time is impossible", len(b))
	}
	return tracefs.Time(t), nil
}

// Decode decodes the record that b begins with and returns its length. Records
// of other types than those above have only type, time and CPU. r.Name lies in
// b.
func Decode(b []byte, r *Record) (int, error) {
	n, err := size(b)
	if err != nil {
		return 0, err
	}
	e := binary.NativeEndian
	*r = Record{Type: e.Uint32(b), Misc: e.Uint16(b[4:])}
	if r.Time, err = when(b[:n]); err != nil {
		return 0, err
	}
	ids := trailer(b[:n])
	r.CPU = e.Uint32(ids[16:])
	body := b[headerSize : n-trailerSize]
	switch r.Type {
	case unix.PERF_RECORD_MMAP2:
		err = r.mmap2(body)
	case unix.PERF_RECORD_COMM:
		err = r.comm(body)
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		err = r.task(body)
	case unix.PERF_RECORD_SAMPLE:
		r.ids(ids, ids[4:])
		err = r.sample(b[headerSize+trailerSize : n])
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

func (r *Record) mmap2(b []byte) error {
	if len(b) < mmap2Size {
		return bad("a mapping is too short", len(b))
	}
	e := binary.NativeEndian
	r.ids(b, b[4:])
	r.Addr, r.Len, r.Offset = e.Uint64(b[8:]), e.Uint64(b[16:]), e.Uint64(b[24:])
	if r.Misc&unix.PERF_RECORD_MISC_MMAP_BUILD_ID != 0 {
		n := int(b[32])
		if n > elfid.Max {
			return bad("a build ID is too long", n)
		}
		r.BuildID, _ = elfid.New(b[36 : 36+n])
	} else {
		r.Dev = procmap.Dev{Major: e.Uint32(b[32:]), Minor: e.Uint32(b[36:])}
		r.Inode, r.InodeGeneration = e.Uint64(b[40:]), e.Uint64(b[48:])
	}
	r.Prot, r.Flags = e.Uint32(b[56:]), e.Uint32(b[60:])
	r.Name = upToNUL(b[mmap2Size:])
	if r.Addr+r.Len < r.Addr || r.Len == 0 {
		return bad("a mapping has impossible addresses", len(b))
	}
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
