package tracefs

// Names that the kernel prints for a task whose name it does not have
// (__trace_find_cmdline in kernel/trace/trace_sched_switch.c).
const (
	// CommUnknown: its name was not noted, or has been forgotten.
	CommUnknown = "<...>"
	// CommIdle: PID 0.
	CommIdle = "<idle>"
	// CommInvalid: a PID below 0.
	CommInvalid = "<XXX>"
)
