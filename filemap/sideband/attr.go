package sideband

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// bitBuildID is build_id of struct perf_event_attr (include/uapi/linux/perf_event.h,
// Linux 5.12), which golang.org/x/sys does not have.
const bitBuildID = 1 << 34

// features are what not every kernel has, or lets us have, beside the rest.
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

// sampleType is what ends each record, see trailerSize. It is all there is to a
// sample.
const sampleType = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU

// attributes describe an event for the sake of the records beside it. The event
// itself is the end of an exec, of which there is no other record, or one that
// never happens.
func (o *Options) attributes(clock int32, ringSize int, f features) *unix.PerfEventAttr {
	attr := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Sample_type: sampleType,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Wakeup:  uint32(ringSize / 4), // poll says so with room left for the time until we come
		Clockid: clock,
	}
	attr.Size = uint32(unsafe.Sizeof(*attr))
	if f.exec {
		attr.Type, attr.Config, attr.Sample = unix.PERF_TYPE_TRACEPOINT, o.ExecEvent, 1
	} else {
		attr.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv
	}
	if f.buildID {
		attr.Bits |= bitBuildID
	}
	if f.lost {
		attr.Read_format = unix.PERF_FORMAT_LOST
	}
	return attr
}

// features are those of a step of the ladder that may be asked for.
func (o *Options) features(f features) features {
	f.buildID = f.buildID && !o.noIDs
	return f
}

// openEvent opens the event of a CPU, with as many features as the kernel has.
func (o *Options) openEvent(cpu int, clock int32, ringSize int) (fd int, f features, err error) {
	for _, f = range ladder {
		if f.exec && o.ExecEvent == 0 {
			continue
		}
		f = o.features(f)
		fd, err = unix.PerfEventOpen(o.attributes(clock, ringSize, f), -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err == nil || !f.exec && err != unix.EINVAL && err != unix.E2BIG {
			break
		}
	}
	return fd, f, err
}
