package perfdata

import (
	"fmt"

	"ustack/tracefs"
)

// timeConv is how perf's clock counts the time stamp counter of an x86 CPU
// (PERF_RECORD_TIME_CONV, and time_zero in include/uapi/linux/perf_event.h).
type timeConv struct{ shift, mult, zero uint64 }

// ClockTSC is the name of ftrace's clock that is the time stamp counter.
const ClockTSC = "x86-tsc"

// ticks returns the time stamp counter at a time (perf_time_to_tsc in tools/perf/util/tsc.c).
func (c *timeConv) ticks(t uint64) uint64 {
	t -= c.zero
	return t/c.mult<<c.shift + t%c.mult<<c.shift/c.mult
}

// readFirst looks at the records that perf writes before all of the kernel's: how the kernel's
// clock counts, if it says so, and the CPUs of events.
func (f *File) readFirst() {
	s := f.records(nil)
	defer s.close()
	for {
		rec, h, _, err := s.next()
		if err == nil {
			err = s.follows(h, rec)
		}
		if err != nil || h.typ < firstUserRecord { // reading the records reports errors
			return
		}
		switch h.typ {
		case recordTimeConv:
			f.timeConv(rec)
		case recordIDIndex:
			f.events.place(rec)
		}
	}
}

// timeConv takes the record: the values, two more of arm64, and whether they count.
func (f *File) timeConv(rec []byte) {
	v := fields{order: f.order, rest: rec[headerSize:]}
	c := timeConv{shift: v.word64(), mult: v.word64(), zero: v.word64()}
	const arm64, maxShift = 16, 32 // the kernel's mult has 32 bits
	v.take(arm64)
	counts := v.take(2) // cap_user_time_zero, cap_user_time_short
	if v.bad || counts[0] == 0 || counts[1] != 0 || c.mult == 0 || c.mult > 1<<32 || c.shift > maxShift {
		return
	}
	f.tsc = &c
}

// UseClock has times converted to those of another trace clock, as ftrace names it. It must be
// called before the records are read. What cannot be converted is an error.
func (f *File) UseClock(name string) error {
	switch own := f.Clock(); {
	case name == own:
		return nil
	case own != clockPerf || name != ClockTSC:
		return fmt.Errorf("the clock of perf.data is %q, which cannot be converted to %q; record both by one clock (perf record -k mono, and mono in trace_clock)", own, name)
	case f.tsc == nil:
		return fmt.Errorf("perf.data does not say how its clock counts the time stamp counter, which is the clock %q; record both by one clock", name)
	}
	f.convert, f.kernel.Clock = f.tsc.ticks, name
	return nil
}

// time returns a time of the file by the clock in use, 0 for one that cannot be.
func (f *File) time(t uint64) tracefs.Time {
	if f.convert == nil { // all is inlined
		return validTime(t)
	}
	return f.converted(t)
}

func (f *File) converted(t uint64) tracefs.Time {
	if t == 0 {
		return 0
	}
	return validTime(f.convert(t))
}
