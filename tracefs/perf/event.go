package perf

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege"
)

// bitBuildID is build_id of struct perf_event_attr (include/uapi/linux/perf_event.h,
// Linux 5.12), which golang.org/x/sys does not have.
const bitBuildID = 1 << 34

// defer_callchain and defer_output of struct perf_event_attr (Linux 6.19), which it does
// not have either.
const (
	bitDeferChain  = 1 << 38
	bitDeferOutput = 1 << 39
)

// Event describes an event to open (struct perf_event_attr of man 2
// perf_event_open). Each of its records has TID, TIME and CPU, see Layout.
type Event struct {
	// Tracepoint is the number of a tracepoint (its file id), each hit of which is
	// sampled. 0 is for an event that never happens, for the sake of the records
	// beside it.
	Tracepoint uint64
	// Probe and Function are for a kprobe: each call of the kernel's function is
	// sampled. Probe is the result of ProbeType.
	Probe    uint32
	Function string
	// Filter has the kernel leave out hits that do not match
	// (Documentation/trace/events.rst, "Event filtering").
	Filter string
	// Clock is the clock of the times, see ClockID.
	Clock int32
	// Mappings asks for a record of each executable mapping, Comms of each
	// name of a thread, Tasks of each fork and exit.
	Mappings, Comms, Tasks bool
	// Data asks for a record of each mapping, as it is made or changed, executable or
	// not, with its inode. It comes with Tasks, see Ring.WithoutTasks.
	Data bool
	// BuildIDs has mappings come with the build ID of their file (Linux 5.12).
	BuildIDs bool
	// CountLost has the event count the records that were lost, see Ring.Lost
	// (Linux 6.0).
	CountLost bool
	// UserOnly leaves out events in the kernel, as tracepoints are.
	UserOnly bool
	// Inherit follows the threads and processes that the watched ones start.
	Inherit bool
	// Disabled: nothing is recorded until Enable.
	Disabled bool
	// Wakeup is how many bytes of records make a ring readable for poll(2); 0
	// is for each sample.
	Wakeup int
	// Raw adds the tracepoint's record to a sample.
	Raw bool
	// ID adds the number of the event to each record, see Layout.ID.
	ID bool
	// Registers adds the registers of user space to a sample.
	Registers bool
	// StackBytes adds so many bytes of the user stack, from the stack pointer on:
	// a multiple of 8, at most MaxStack. 0 is for none.
	StackBytes int
	// CallChain adds so many frames of the user stack, as the kernel unwinds it by
	// frame pointers; at most the sysctl kernel.perf_event_max_stack. 0 is for none.
	CallChain int
	// DeferChain has the kernel unwind the stack of user space as late as on the return
	// there: the sample has a cookie in place of the frames, and a record of an event of
	// the same CPU or thread with DeferOutput has the frames (Linux 6.19). Where the
	// kernel cannot, it unwinds at once.
	DeferChain, DeferOutput bool
}

// MaxStack is the largest copy of a stack, in bytes, that the kernel makes (man 2
// perf_event_open, sample_stack_user).
const MaxStack = 1<<16 - 8

// Place is where an event is watched.
type Place struct {
	tid, cpu int
	output   int
}

// OnCPU returns the Place of all threads on a CPU.
func OnCPU(cpu int) Place { return Place{tid: -1, cpu: cpu, output: -1} }

// OfThread returns the Place of one thread on a CPU.
func OfThread(tid, cpu int) Place { return Place{tid: tid, cpu: cpu, output: -1} }

// Thread reports whether it is that of one thread.
func (p Place) Thread() bool { return p.tid >= 0 }

// Into has the records written to the ring of the same CPU that another event has.
func (p Place) Into(r *Ring) Place {
	p.output = r.fd
	return p
}

// Layout returns the layout of its records.
func (e *Event) Layout() Layout { return Layout{ID: e.ID} }

// attributes returns the event as the kernel takes it.
func (e *Event) attributes() *unix.PerfEventAttr {
	attr := &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU,
		Bits:        unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
		Clockid:     e.Clock, Wakeup: 1,
	}
	attr.Size = uint32(unsafe.Sizeof(*attr))
	if e.Tracepoint != 0 {
		attr.Type, attr.Config, attr.Sample = unix.PERF_TYPE_TRACEPOINT, e.Tracepoint, 1
	}
	if e.Probe != 0 {
		attr.Type, attr.Config, attr.Sample = e.Probe, 0, 1
	}
	if e.Wakeup > 0 {
		attr.Bits |= unix.PerfBitWatermark
		attr.Wakeup = uint32(e.Wakeup)
	}
	if e.CountLost {
		attr.Read_format = unix.PERF_FORMAT_LOST
	}
	for _, b := range [...]struct {
		set  bool
		bits uint64
	}{
		{e.Mappings, unix.PerfBitMmap | unix.PerfBitMmap2}, {e.Comms, unix.PerfBitComm | unix.PerfBitCommExec},
		{e.Data, unix.PerfBitMmapData | unix.PerfBitMmap2},
		{e.Tasks, unix.PerfBitTask}, {e.BuildIDs, bitBuildID}, {e.Inherit, unix.PerfBitInherit}, {e.Disabled, unix.PerfBitDisabled},
		{e.UserOnly, unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv},
		{e.DeferChain, bitDeferChain}, {e.DeferOutput, bitDeferOutput},
	} {
		if b.set {
			attr.Bits |= b.bits
		}
	}
	e.sampled(attr)
	return attr
}

// sampled asks for the contents of a sample beside the time.
func (e *Event) sampled(attr *unix.PerfEventAttr) {
	if e.Raw {
		attr.Sample_type |= unix.PERF_SAMPLE_RAW
	}
	if e.ID {
		attr.Sample_type |= unix.PERF_SAMPLE_ID
	}
	if e.Registers {
		attr.Sample_type |= unix.PERF_SAMPLE_REGS_USER
		attr.Sample_regs_user = registerMask(runtime.GOARCH)
	}
	if e.StackBytes > 0 {
		attr.Sample_type |= unix.PERF_SAMPLE_STACK_USER
		attr.Sample_stack_user = uint32(e.StackBytes)
	}
	if e.CallChain > 0 {
		attr.Sample_type |= unix.PERF_SAMPLE_CALLCHAIN
		attr.Bits |= unix.PerfBitExcludeCallchainKernel
		attr.Sample_max_stack = uint16(min(e.CallChain, 1<<16-1))
	}
}

// Open opens the event and returns its descriptor. The error is
// perf_event_open(2)'s, see Refusal, or wraps ErrFilter.
func (e Event) Open(at Place) (fd int, err error) {
	defer privilege.Raise(privilege.Perf).Lower()
	attr := e.attributes()
	var function *byte
	if e.Probe != 0 {
		if function, err = unix.BytePtrFromString(e.Function); err != nil {
			return -1, err
		}
		attr.Ext1 = uint64(uintptr(unsafe.Pointer(function))) // kprobe_func
	}
	fd, err = unix.PerfEventOpen(attr, at.tid, at.cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	runtime.KeepAlive(function)
	if err != nil {
		return -1, err
	}
	if e.Filter != "" {
		if err = setFilter(fd, e.Filter); err != nil {
			err = fmt.Errorf("%w: %q: %w", ErrFilter, e.Filter, err)
		}
	}
	if err == nil && at.output >= 0 {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, at.output)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Try opens an event for our own thread and closes it again. The error is that of Refusal.
func Try(e Event) error {
	fd, err := e.Open(OfThread(0, -1))
	if err != nil {
		return Refusal(err)
	}
	return unix.Close(fd)
}

// Enable begins to record a Disabled event.
func Enable(fd int) error { return unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0) }

// setFilter has the kernel leave out hits that do not match.
func setFilter(fd int, filter string) error {
	text, err := unix.BytePtrFromString(filter)
	if err != nil {
		return err
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_SET_FILTER, uintptr(unsafe.Pointer(text))); e != 0 {
		return e
	}
	return nil
}

// number returns the number that records of the event have (Layout.ID).
func number(fd int) (id uint64, err error) {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&id))); e != 0 {
		return 0, e
	}
	return id, nil
}
