package tracefs

// Time is a time stamp on the clock of its trace: nanoseconds if the clock
// counts them, else whatever trace_clock counts (cycles, jiffies, events).
type Time int64

// Head is a record's header: who wrote it, where and when.
type Head struct {
	// Comm is the task's name as it was when the text was made, not escaped;
	// "<...>" if the kernel had forgotten it.
	Comm []byte
	// TGID is the process, NoTID if the text does not have it.
	TGID int32
	// Flags are the irq-info columns ("d..2."), nil if the text has none.
	Flags []byte
	// Stamp is the time stamp, all digits kept.
	Stamp []byte
	// Usual is set if the first UsualHead bytes of the header say all but the
	// stamp, which follows after blanks and goes on to the ": ".
	Usual bool
}

// UsualHead is the length of "%16s-%-7d [%03d] FFFFF ".
const UsualHead = 37

// HeadDecoder decodes headers of one input on demand, so that records which
// only pass through cost nothing. text is the record up to its body.
type HeadDecoder interface {
	Head(text []byte) Head
	Time(text []byte) Time
	// Nanoseconds reports whether Time counts nanoseconds.
	Nanoseconds() bool
}
