package main

// deviceRow is a row of the table devices: a report. A device is a boot, by the boot_id in
// the head of its reports; a report without one is a device of its own.
type deviceRow struct {
	Report uint64 `parquet:"report"` // hash of the bytes of the file; xxhash in tables of older versions
	Device string `parquet:"device"`
	Name   string `parquet:"name"` // of the file
	// Recording is the xxhash of boot_id and begun. Reports that have the same one are those of
	// a ring, or have the same waits; one that does not say them is a recording of its own.
	Recording uint64 `parquet:"recording"`
	OS        string `parquet:"os,dict"`
	Kernel    string `parquet:"kernel,dict"`
	Arch      string `parquet:"arch,dict"`
	Ustack    string `parquet:"ustack,dict"`
	// Begun is when the trace began, in UTC; NULL if the report does not say it.
	Begun    *int64 `parquet:"begun,optional,timestamp(nanosecond)"`
	Duration int64  `parquet:"duration_ns"`
	Events   int64  `parquet:"events"`
	Lost     int64  `parquet:"lost"`      // records, as far as the kernel has counted them
	LostMore bool   `parquet:"lost_more"` // there are losses without a count
	Waits    int64  `parquet:"waits"`     // samples with a time
	WaitedNS int64  `parquet:"waited_ns"` // of these, all together
	// Refused are reports that the device did not write since the one before: it had no budget.
	// Duplicates had the cause of another one of that day.
	Refused    int64 `parquet:"refused"`
	Duplicates int64 `parquet:"duplicates"`
}

// isLater reports whether tables of older versions do not have a column of devices; it is 0 there.
func isLater(column string) bool { return column == "refused" || column == "duplicates" }

// stackRow is a row of stacks: a stack that a sample has, once for all devices.
type stackRow struct {
	// Stack is the hash of its frames: build ID and offset of each; of a frame without a build
	// ID, path and offset, and without a file, why it has none.
	Stack  uint64 `parquet:"stack"`
	Frames int32  `parquet:"frames"`
	Cut    bool   `parquet:"cut"`      // more frames are missing
	End    string `parquet:"end,dict"` // why it ends, if that is known
}

// frameRow is a row of frames.
type frameRow struct {
	Stack   uint64  `parquet:"stack"`
	Depth   int32   `parquet:"depth"` // from 0, the innermost
	BuildID *string `parquet:"build_id,optional,dict"`
	Path    *string `parquet:"path,optional,dict"` // of the device that had the stack first
	Offset  *int64  `parquet:"offset,optional"`    // in the file
	// Ran is set if the thread was at the offset itself: the innermost frame, one that a
	// signal interrupted. Others are return addresses: the call is before the offset.
	Ran    bool    `parquet:"ran"`
	Reason *string `parquet:"reason,optional,dict"`
}

// sampleRow is a row of samples: a wait, or events of one kind with one stack in a report.
type sampleRow struct {
	Report uint64  `parquet:"report,dict"`
	Device string  `parquet:"device,dict"`
	Time   *int64  `parquet:"time,optional,timestamp(nanosecond)"` // when it began, UTC
	Event  string  `parquet:"event,dict"`                          // "futex wait", or the event's name
	TID    *int32  `parquet:"tid,optional,dict"`
	Stack  *uint64 `parquet:"stack,optional,dict"`
	// Trust is that of the frame with the least: announced, verified, inferred, late or
	// claimed; NULL if no frame has a file.
	Trust *string `parquet:"trust,optional,dict"`
	// NS is how long a wait slept, at least LowNS, at most HighNS; NULL if it is no wait, did
	// not sleep, or that is unknown. The end of an open one is unknown: it has LowNS only.
	NS     *int64  `parquet:"ns,optional"`
	LowNS  *int64  `parquet:"low_ns,optional"` // see shorten
	HighNS *int64  `parquet:"high_ns,optional"`
	Result *string `parquet:"result,optional,dict"`
	// LockKey is the hash of what the lock is known by on every device: its kind, and its
	// variable, or else the frame that waits.
	LockKey *uint64 `parquet:"lock_key,optional,dict"`
	// IsLock is set if threads wait for it as for a lock, and not for an event.
	IsLock      *bool   `parquet:"is_lock,optional"`
	LockKind    *string `parquet:"lock_kind,optional,dict"`
	LockName    *string `parquet:"lock_name,optional,dict"` // the static variable: file+offset
	LockBuildID *string `parquet:"lock_build_id,optional,dict"`
	// Site is the first frame that is not of the C library.
	SitePath    *string `parquet:"site_path,optional,dict"`
	SiteBuildID *string `parquet:"site_build_id,optional,dict"`
	SiteOffset  *int64  `parquet:"site_offset,optional,dict"`
	SiteRan     *bool   `parquet:"site_ran,optional"` // see frameRow
	// OwnerStack is where the thread that ended the wait did it.
	OwnerStack *uint64 `parquet:"owner_stack,optional,dict"`
	OwnerSure  *bool   `parquet:"owner_sure,optional"`
	// Weight is for how many it stands: events of one kind are counted, and a report that was
	// written with a probability stands for others.
	Weight float64 `parquet:"weight"`
}

// shorten leaves bounds out that are the time itself: in a file, they would take three times as
// much. Older versions wrote them, so readers take NULL for NS where that is known.
func (s *sampleRow) shorten() {
	if s.NS == nil {
		return
	}
	if s.LowNS != nil && *s.LowNS == *s.NS {
		s.LowNS = nil
	}
	if s.HighNS != nil && *s.HighNS == *s.NS {
		s.HighNS = nil
	}
}

// functionRow is a row of functions: the name of the code at a place of a file, once for all
// devices, or why it has none.
type functionRow struct {
	BuildID  string  `parquet:"build_id,dict"`
	Offset   int64   `parquet:"offset"`
	Ran      bool    `parquet:"ran"` // see frameRow
	Function *string `parquet:"function,optional,dict"`
	// Inlined are the functions inlined there, innermost first: "f (file:line), g".
	Inlined *string `parquet:"inlined,optional,dict"`
	Source  *string `parquet:"source,optional,dict"` // file
	Line    *int64  `parquet:"line,optional"`
	Reason  *string `parquet:"reason,optional,dict"` // why it has no name
}

// Names of the tables, in the order in which they are written.
const (
	tableStacks  = "stacks"
	tableFrames  = "frames"
	tableSamples = "samples"
	tableDevices = "devices"
	// Those of older versions have no sums and no durations: see addSums.
	tableSums      = "sums"
	tableDurations = "durations"
	// tableFunctions is made of the others, by symbolize.
	tableFunctions = "functions"
)
