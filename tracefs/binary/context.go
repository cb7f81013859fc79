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
	usual                    bool // they are where all kernels have them

	nanoseconds bool
	lazy        bool // the kernel knows lazy preemption
	tasks       [256]task
	columns     columns
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
	p.findCommon()
	return p
}

// want sets what the consumer needs.
func (p *Printer) want(opt Options) {
	p.wantEvents, p.noText, p.templates.off = opt.Events, opt.NoText, opt.NoTemplates
	if opt.Spare {
		p.spare = spare{on: true, last: make(map[int32]spareEvent), entered: make(map[int32]bool)}
	}
}

// findCommon finds the fields that every record has; all events agree on them.
func (p *Printer) findCommon() {
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
	p.usual = !p.env.BigEndian && p.typ == fieldOf(&usual, "common_type") && p.flags == fieldOf(&usual, "common_flags") &&
		p.preempt == fieldOf(&usual, "common_preempt_count") && p.pid == fieldOf(&usual, "common_pid")
}

// common are the values of the fields that every record has.
type common struct {
	typ            int
	pid            int32
	flags, preempt uint8
}

// commonOf reads the fields that every record has.
func (p *Printer) commonOf(rec []byte) common {
	if p.usual && len(rec) >= commonSize {
		v := binary.LittleEndian.Uint64(rec)
		return common{typ: int(uint16(v)), flags: uint8(v >> 16), preempt: uint8(v >> 24), pid: int32(v >> 32)}
	}
	return common{
		typ: int(p.typ.get(p, rec)), flags: uint8(p.flags.get(p, rec)), preempt: uint8(p.preempt.get(p, rec)), pid: int32(p.pid.get(p, rec)),
	}
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
	// line is the text with all columns that the last line had, up to the second, which
	// mostly are those of the next line, too; empty if there is none.
	line           []byte
	cpu            int32
	flags, preempt uint8
	sec            uint64
}

// task returns what a record says of the task that made it, with its name of
// then.
func (p *Printer) task(time uint64, c common) *task {
	pid := c.pid
	t := &p.tasks[uint8(pid)]
	if t.pid == pid && t.text != "" && time >= t.from && time < t.until {
		return t
	}
	comm, from, until := p.comm(pid, time)
	*t = task{pid: pid, from: from, until: until, text: p.taskText(pid, comm), line: t.line[:0]}
	sample := p.head(make([]byte, 0, 2*len(t.text)), t, 0, time, c)
	head := p.heads[0].Head(sample)
	t.comm, t.tgid, t.odd = bytes.Clone(head.Comm), head.TGID, head.Stamp == nil
	return t
}

// head prints all that stands before the body (trace_print_context in
// kernel/trace/trace_output.c).
func (p *Printer) head(b []byte, t *task, cpu int32, time uint64, c common) []byte {
	if !p.nanoseconds {
		return append(p.time(p.columnsOf(b, t, cpu, c), time), ':', ' ')
	}
	usecs := microseconds(time)
	sec := usecs / 1e6
	if t.sec != sec || t.cpu != cpu || t.flags != c.flags || t.preempt != c.preempt || len(t.line) == 0 {
		t.line = p.seconds(p.columnsOf(t.line[:0], t, cpu, c), sec)
		t.sec, t.cpu, t.flags, t.preempt = sec, cpu, c.flags, c.preempt
	}
	b = append(b, t.line...)
	rest := uint32(usecs - sec*1e6)
	high, middle, low := 2*(rest/10000), 2*(rest/100%100), 2*(rest%100)
	return append(b, decimals[high], decimals[high+1], decimals[middle], decimals[middle+1], decimals[low], decimals[low+1], ':', ' ')
}

// columnsOf prints what stands before the time.
func (p *Printer) columnsOf(b []byte, t *task, cpu int32, c common) []byte {
	b = append(b, t.text...)
	b = append(b, '[', '0'+byte(cpu/100%10), '0'+byte(cpu/10%10), '0'+byte(cpu%10))
	if cpu > 999 {
		b = strconv.AppendInt(b[:len(b)-3], int64(cpu), 10)
	}
	b = append(b, ']', ' ')
	if p.k.Options.NoIRQInfo {
		return b
	}
	columns := p.flagColumns(c)
	return append(b, columns[:]...)
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

// time prints " %12llu", for clocks that do not count nanoseconds.
func (p *Printer) time(b []byte, time uint64) []byte {
	digits := strconv.AppendUint(make([]byte, 0, 20), time, 10)
	b = append(b, ' ')
	for n := len(digits); n < 12; n++ {
		b = append(b, ' ')
	}
	return append(b, digits...)
}

// seconds prints the whole seconds of " %5lu.%06lu", microseconds rounded as ns2usecs
// does.
func (p *Printer) seconds(b []byte, sec uint64) []byte {
	digits := strconv.AppendUint(make([]byte, 0, 20), sec, 10)
	b = append(b, ' ')
	for n := len(digits); n < 5; n++ {
		b = append(b, ' ')
	}
	return append(append(b, digits...), '.')
}

// decimals are the numbers below 100, two digits each.
const decimals = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849" +
	"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

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
