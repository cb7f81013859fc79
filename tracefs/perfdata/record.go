package perfdata

import (
	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// miscMmapData is PERF_RECORD_MISC_MMAP_DATA: a mapping that is no code.
const miscMmapData = 1 << 13

// sideBand decodes a record that is no sample. ok is false if it is malformed, or of no
// kind that says anything of mappings, threads, names and losses.
func (f *File) sideBand(h header, b []byte, r *perf.Record) (ok, bad bool) {
	*r = perf.Record{Type: h.typ, Misc: h.misc}
	a := f.events.of(h, b)
	body := b[headerSize:]
	if a != nil {
		n := a.trailer()
		if n > len(body) {
			return false, true
		}
		f.trailer(a, body[len(body)-n:], r)
		body = body[:len(body)-n]
	}
	v := fields{order: f.order, rest: body}
	switch h.typ {
	case unix.PERF_RECORD_MMAP, unix.PERF_RECORD_MMAP2:
		bad = !mapped(&v, h, a, r)
	case unix.PERF_RECORD_COMM:
		r.PID, r.TID = v.pid(), v.pid()
		r.Name = upToNUL(v.rest)
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		r.PID, r.ParentPID, r.TID, r.ParentTID = v.pid(), v.pid(), v.pid(), v.pid()
	case unix.PERF_RECORD_LOST:
		v.word64()
		r.Lost = v.word64()
	case unix.PERF_RECORD_LOST_SAMPLES:
		r.Lost = v.word64()
	default:
		return false, false
	}
	bad = bad || v.bad
	return !bad, bad
}

// trailer reads the common end of records that are no samples. Where it has no CPU, that of the
// event counts. perf itself writes 0 for one.
func (f *File) trailer(a *attr, b []byte, r *perf.Record) {
	v := fields{order: f.order, rest: b}
	for _, part := range [...]uint64{unix.PERF_SAMPLE_TID, unix.PERF_SAMPLE_TIME, unix.PERF_SAMPLE_ID, unix.PERF_SAMPLE_STREAM_ID,
		unix.PERF_SAMPLE_CPU} {
		if !a.has(part) {
			continue
		}
		switch part {
		case unix.PERF_SAMPLE_TIME:
			r.Time = f.time(v.word64())
		case unix.PERF_SAMPLE_CPU:
			r.CPU = v.word32() & (1<<31 - 1) // it is an int32 from here on
			v.word32()
		case unix.PERF_SAMPLE_TID: // of the thread that made the record
			r.PID, r.TID = v.pid(), v.pid()
		default:
			v.word64()
		}
	}
	if a.has(unix.PERF_SAMPLE_CPU) && r.Type != unix.PERF_RECORD_LOST_SAMPLES || a.idFromEnd < 0 {
		return
	}
	if cpu := f.events.cpuOf(b, len(b)-a.idFromEnd); cpu >= 0 {
		r.CPU = uint32(cpu)
	}
}

// latestTime is the last time that can be.
const latestTime = 1 << 62

// validTime returns a time, 0 for one that cannot be.
func validTime(t uint64) tracefs.Time {
	if t > latestTime {
		return 0
	}
	return tracefs.Time(t)
}

func (f *fields) pid() int { return int(int32(f.word32())) }

// mapped reads MMAP and MMAP2.
func mapped(v *fields, h header, a *attr, r *perf.Record) bool {
	r.PID, r.TID = v.pid(), v.pid()
	r.Addr, r.Len, r.Offset = v.word64(), v.word64(), v.word64()
	if h.typ == unix.PERF_RECORD_MMAP {
		r.Prot = unix.PROT_READ | unix.PROT_EXEC
		if h.misc&miscMmapData != 0 {
			r.Prot = unix.PROT_READ
		}
	} else if !mapped2(v, h, a, r) {
		return false
	}
	r.Name = upToNUL(v.rest)
	return !v.bad && r.Len > 0 && r.Addr+r.Len > r.Addr
}

// mapped2 reads what MMAP2 has besides. The bit in misc counts only if the event asked for
// build IDs: Linux 6.18 sets it for all events once one of them has, also of another
// program.
func mapped2(v *fields, h header, a *attr, r *perf.Record) bool {
	if h.misc&unix.PERF_RECORD_MISC_MMAP_BUILD_ID != 0 && a != nil && a.flags&flagBuildID != 0 {
		b := v.take(24)
		if b == nil || int(b[0]) > buildIDSize {
			return false
		}
		r.BuildID = b[4 : 4+b[0]]
	} else {
		r.Major, r.Minor = v.word32(), v.word32()
		r.Inode, r.InodeGeneration = v.word64(), v.word64()
	}
	r.Prot, r.Flags = v.word32(), v.word32()
	return !v.bad
}
