package binary

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/format"
	"ustack/tracefs/printfmt"
	"ustack/tracefs/text"
)

// Printer prints records as the kernel does. It is not safe for use by
// several goroutines.
type Printer struct {
	k   *Kernel
	env printfmt.Env
	// By common_type: what the kernel says, and the printers made of it.
	formats map[int]*format.Event
	events  []*event
	heads   []tracefs.HeadDecoder

	// Fields that all records have.
	typ, flags, preempt, pid field

	nanoseconds bool
	lazy        bool // the kernel knows lazy preemption
	tasks       [256]task
	columns     columns
	second      second
	templates   templates
	// wantEvents asks for Records of events too, noText for them without text
	// where that can be.
	wantEvents, noText bool
	spare              spare
	notes              notes
}

// newPrinter compiles the print fmts of a kernel's events as they are met.
func newPrinter(k *Kernel) *Printer {
	p := &Printer{k: k, nanoseconds: clocksInNanoseconds[k.Clock], lazy: k.atLeast(6, 13)}
	p.formats = make(map[int]*format.Event, len(k.Events))
	for _, e := range k.Events {
		p.formats[e.ID] = e
	}
	p.heads = []tracefs.HeadDecoder{text.ColumnHeads(p.nanoseconds)}
	p.env = printfmt.Env{BigEndian: k.Layout.BigEndian, LongSize: k.Layout.LongSize}
	if k.Symbols != nil {
		p.env.Symbol, p.env.IsText = k.Symbols.Append, k.Symbols.isText
	}
	p.env.String = func(addr uint64) (string, bool) { s, ok := k.Strings[addr]; return s, ok }
	p.common()
	return p
}

// want sets what the consumer needs.
func (p *Printer) want(opt Options) {
	p.wantEvents, p.noText, p.templates.off = opt.Events, opt.NoText, opt.NoTemplates
	if opt.Spare {
		p.spare = spare{on: true, last: make(map[int32]spareEvent), entered: make(map[int32]bool)}
	}
}

// common finds the fields that every record has; all events agree on them.
func (p *Printer) common() {
	usual := format.Event{Common: []format.Field{
		{Name: "common_type", Offset: 0, Size: 2}, {Name: "common_flags", Offset: 2, Size: 1},
		{Name: "common_preempt_count", Offset: 3, Size: 1}, {Name: "common_pid", Offset: 4, Size: 4},
	}}
	e := &usual
	for _, x := range p.k.Events {
		if x.Field("common_type") != nil && x.Field("common_pid") != nil {
			e = x
			break
		}
	}
	p.typ, p.flags = fieldOf(e, "common_type"), fieldOf(e, "common_flags")
	p.preempt, p.pid = fieldOf(e, "common_preempt_count"), fieldOf(e, "common_pid")
}

// number reads an unsigned number of the traced machine.
func (p *Printer) number(b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		if p.env.BigEndian {
			return uint64(binary.BigEndian.Uint16(b))
		}
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		if p.env.BigEndian {
			return uint64(binary.BigEndian.Uint32(b))
		}
		return uint64(binary.LittleEndian.Uint32(b))
	case 8:
		if p.env.BigEndian {
			return binary.BigEndian.Uint64(b)
		}
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// task is the beginning of a line for one thread, "%16s-%-7d " and the tgid, for
// the times from from up to until.
type task struct {
	pid         int32
	from, until uint64
	text        string
	// The columns as a reader of the text finds them. odd: it finds none.
	comm []byte
	tgid int32
	odd  bool
}

// task returns what a record says of the task that made it, with its name of
// then.
func (p *Printer) task(time uint64, rec []byte) *task {
	pid := int32(p.pid.get(p, rec))
	t := &p.tasks[uint8(pid)]
	if t.pid == pid && t.text != "" && time >= t.from && time < t.until {
		return t
	}
	comm, from, until := p.comm(pid, time)
	*t = task{pid: pid, from: from, until: until, text: p.taskText(pid, comm)}
	sample := p.head(make([]byte, 0, 2*len(t.text)), t, 0, time, rec)
	head := p.heads[0].Head(sample)
	t.comm, t.tgid, t.odd = bytes.Clone(head.Comm), head.TGID, head.Stamp == nil
	return t
}

// head prints all that stands before the body (trace_print_context in
// kernel/trace/trace_output.c).
func (p *Printer) head(b []byte, t *task, cpu int32, time uint64, rec []byte) []byte {
	b = append(b, t.text...)
	b = append(b, '[', '0'+byte(cpu/100%10), '0'+byte(cpu/10%10), '0'+byte(cpu%10))
	if cpu > 999 {
		b = strconv.AppendInt(b[:len(b)-3], int64(cpu), 10)
	}
	b = append(b, ']', ' ')
	if !p.k.Options.NoIRQInfo {
		columns := p.flagColumns(rec)
		b = append(b, columns[:]...)
	}
	b = p.time(b, time)
	return append(b, ':', ' ')
}

// comm returns the name of a task, and for which times it is
// (trace_find_cmdline in kernel/trace/trace_sched_switch.c).
func (p *Printer) comm(pid int32, time uint64) (comm string, from, until uint64) {
	const always = 1<<64 - 1
	switch {
	case pid == 0:
		return tracefs.CommIdle, 0, always
	case pid < 0:
		return tracefs.CommInvalid, 0, always
	}
	until = always
	if p.k.Names != nil {
		var ok bool
		if comm, until, ok = p.k.Names.Comm(pid, time); ok {
			return cutComm(comm), time, until
		}
		from = time
	}
	comm, ok := p.k.Comms[pid]
	if !ok {
		comm = tracefs.CommUnknown
	}
	return comm, from, until
}

func (p *Printer) taskText(pid int32, comm string) string {
	b := make([]byte, 0, 48)
	for n := len(comm); n < 16; n++ {
		b = append(b, ' ')
	}
	name := []byte(comm)
	if len(name) > 0 && name[0] == ' ' { // a reader takes it for the column's
		b, name = escape.AppendByte(b, ' '), name[1:]
	}
	b = append(escape.Append(b, name), '-')
	b = padRight(strconv.AppendInt(b, int64(pid), 10), len(b), 7)
	b = append(b, ' ')
	if !p.k.Options.TGID {
		return string(b)
	}
	tgid, ok := p.k.TGIDs[pid]
	if !ok || tgid == 0 {
		return string(append(b, "(-------) "...))
	}
	b = append(b, '(')
	digits := strconv.Itoa(int(tgid))
	for n := len(digits); n < 7; n++ {
		b = append(b, ' ')
	}
	return string(append(append(b, digits...), ") "...))
}

// padRight fills b from index from up to width with blanks.
func padRight(b []byte, from, width int) []byte {
	for len(b)-from < width {
		b = append(b, ' ')
	}
	return b
}

// second is the text of the last full second, which many records share.
type second struct {
	sec  uint64
	text []byte
}

// time prints " %5lu.%06lu", microseconds rounded as ns2usecs does, or
// " %12llu" for clocks that do not count nanoseconds.
func (p *Printer) time(b []byte, time uint64) []byte {
	if !p.nanoseconds {
		digits := strconv.AppendUint(make([]byte, 0, 20), time, 10)
		b = append(b, ' ')
		for n := len(digits); n < 12; n++ {
			b = append(b, ' ')
		}
		return append(b, digits...)
	}
	usecs := microseconds(time)
	sec := usecs / 1e6
	if s := &p.second; s.sec != sec || s.text == nil {
		digits := strconv.FormatUint(sec, 10)
		s.sec, s.text = sec, append(s.text[:0], ' ')
		for n := len(digits); n < 5; n++ {
			s.text = append(s.text, ' ')
		}
		s.text = append(append(s.text, digits...), '.')
	}
	b = append(b, p.second.text...)
	rest := uint32(usecs - sec*1e6)
	return append(b, '0'+byte(rest/100000), '0'+byte(rest/10000%10), '0'+byte(rest/1000%10),
		'0'+byte(rest/100%10), '0'+byte(rest/10%10), '0'+byte(rest%10))
}

// microseconds rounds nanoseconds to them (ns2usecs in kernel/trace/trace.h).
func microseconds(time uint64) uint64 { return (time + 500) / 1000 }

// Bits of common_flags (enum trace_flag_type in include/linux/trace_events.h).
const (
	flagIRQsOff       = 0x01
	flagReschedLazy   = 0x02
	flagResched       = 0x04
	flagHardIRQ       = 0x08
	flagSoftIRQ       = 0x10
	flagPreemptResch  = 0x20
	flagNMI           = 0x40
	flagBHOff         = 0x80
	reschedLetters    = ".pnNlLbB" // by preempt 1, need 2, lazy 4
	hexDigits         = "0123456789abcdef"
	preemptDepthMask  = 0x0f
	migrateDepthShift = 4
)

// appendFlags prints the five columns of option irq-info (trace_print_lat_fmt).
// Before lazy preemption its bit said that the architecture does not know whether
// interrupts are off.
func appendFlags(b []byte, flags, preempt uint8, lazy bool) []byte {
	irqs := byte('.')
	if !lazy && flags&flagReschedLazy != 0 {
		irqs = 'X'
		flags &^= flagReschedLazy
	}
	switch {
	case flags&flagIRQsOff != 0 && flags&flagBHOff != 0:
		irqs = 'D'
	case flags&flagIRQsOff != 0:
		irqs = 'd'
	case flags&flagBHOff != 0:
		irqs = 'b'
	}
	resched := flags & flagPreemptResch >> 5
	resched |= flags & flagResched >> 1
	resched |= flags & flagReschedLazy << 1
	context := byte('.')
	hard, soft, nmi := flags&flagHardIRQ != 0, flags&flagSoftIRQ != 0, flags&flagNMI != 0
	switch {
	case nmi && hard:
		context = 'Z'
	case nmi:
		context = 'z'
	case hard && soft:
		context = 'H'
	case hard:
		context = 'h'
	case soft:
		context = 's'
	}
	return append(b, irqs, reschedLetters[resched], context, depth(preempt&preemptDepthMask), depth(preempt>>migrateDepthShift))
}

func depth(n uint8) byte {
	if n == 0 {
		return '.'
	}
	return hexDigits[n]
}
