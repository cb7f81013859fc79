package binary

import (
	"encoding/binary"
	"strconv"

	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/text"
)

// Foreign prints records that are not from a ring buffer of ftrace, in the words that
// ftrace has for them: tracepoints and stacks that perf has recorded. It is not safe for
// use by several goroutines.
type Foreign struct {
	printer *Printer
	place   place
	common  []byte // the fields that all records of ftrace begin with
	space   [16]byte
	stack   stack // of UserStack
	bare    bool  // Options.BareStacks, and events have records
}

// Moment is when, where and by whom a record was made. Raw is the record of the
// tracepoint that was hit, nil if it was another event.
type Moment struct {
	CPU      int32
	Time     uint64
	TID, PID int32
	Raw      []byte
}

// commonSize is the size of the fields that all records of ftrace begin with.
const commonSize = 8

// NewForeign compiles the print fmts of a kernel's events as they are met.
func NewForeign(k *Kernel, opt Options) *Foreign {
	f := &Foreign{printer: newPrinter(k), bare: opt.BareStacks && opt.Events}
	f.printer.want(opt)
	p := f.printer
	f.common = make([]byte, max(commonSize, p.pid.off+p.pid.size))
	return f
}

// Begin begins a batch, which was reset, and End ends it.
func (f *Foreign) Begin(b *tracefs.Batch) { f.place.begin(b, f.printer) }

// End ends a batch.
func (f *Foreign) End(b *tracefs.Batch) { f.place.end(b) }

// Full reports whether a batch has enough.
func (f *Foreign) Full(b *tracefs.Batch) bool { return full(b, batchSize) }

// Renamed notes that a thread has another name from now on (Kernel.Names).
func (f *Foreign) Renamed(tid int32) {
	if t := &f.printer.tasks[uint8(tid)]; t.pid == tid {
		t.text = ""
	}
}

// Notes are remarks about how records were printed, each once.
func (f *Foreign) Notes() []string { return f.printer.notes.list }

// Lost appends the note that records of a CPU were lost, 0 for an unknown number.
func (f *Foreign) Lost(b *tracefs.Batch, cpu int32, count uint64) { f.printer.Lost(b, cpu, count) }

// Tracepoint prints the hit of a tracepoint. It reports false if there is none in m.
func (f *Foreign) Tracepoint(b *tracefs.Batch, m *Moment) bool {
	if len(m.Raw) < len(f.common) {
		return false
	}
	n := len(b.Origins)
	f.printer.Print(b, m.CPU, m.Time, m.Raw)
	if len(b.Origins) > n && m.PID > 0 {
		b.Origins[n].TGID = m.PID
	}
	return true
}

// Event prints the hit of an event that is no tracepoint: its name, and the address that
// the thread was at.
func (f *Foreign) Event(b *tracefs.Batch, m *Moment, name string, ip, period uint64) {
	f.record(b, m, tracefs.KindEvent, func(p *Printer, r *tracefs.Record) {
		from := len(b.Text)
		b.Text = append(escape.Tail(append(b.Text, name...), from), ": ip=0x"...)
		b.Text = append(appendHex(b.Text, ip), " period="...)
		b.Text = append(strconv.AppendUint(b.Text, period, 10), '\n')
	})
}

// Cookie prints that the event before it asked for a user stack.
func (f *Foreign) Cookie(b *tracefs.Batch, m *Moment, cookie uint64) {
	f.record(b, m, tracefs.KindCookie, func(_ *Printer, r *tracefs.Record) {
		r.Value = cookie
		b.Text = append(text.AppendCookie(b.Text, cookie), '\n')
	})
}

// KernelStack prints addresses of a stack in the kernel.
func (f *Foreign) KernelStack(b *tracefs.Batch, m *Moment, addrs []byte) {
	f.record(b, m, tracefs.KindKernelStack, func(p *Printer, _ *tracefs.Record) {
		b.Text = append(text.AppendKernelTitle(b.Text), '\n')
		for ; len(addrs) >= 8; addrs = addrs[8:] {
			from := len(b.Text) + len(text.Arrow)
			b.Text = endLine(p.symbol(append(b.Text, text.Arrow...), p.number(addrs, 8)), from)
		}
	})
}

// UserStack is a stack of addresses in user space.
type UserStack struct {
	// Addrs are words of 8 bytes in the byte order of the kernel, innermost first.
	Addrs []byte
	// Deferred: it was unwound on return to user space, and has this Cookie.
	Deferred bool
	Cookie   uint64
	// Space is, if not 0, what the process had mapped, as a number: stacks of the same
	// process with the same number have the same frames at the same addresses
	// (tracefs.Template.Settled). With 0 each stack stands for itself.
	Space uint64
}

// UserStack prints a stack.
func (f *Foreign) UserStack(b *tracefs.Batch, m *Moment, s *UserStack) {
	st := &f.stack
	st.addrs, st.zeros, st.alone, st.settled, st.inodes = s.Addrs, true, s.Space == 0, s.Space != 0, nil
	if st.settled {
		st.inodes = f.spaceKey(uint64(uint32(m.PID)), s.Space)
	}
	if f.bare && !s.Deferred && f.bareStack(b, m, st) {
		return
	}
	f.record(b, m, tracefs.KindStack, func(p *Printer, r *tracefs.Record) {
		if s.Deferred {
			r.Flags |= tracefs.Deferred
			r.Value = s.Cookie
		}
		if r.Flags&tracefs.NoText != 0 {
			p.addressesOf(b, r, st)
			return
		}
		if s.Deferred {
			b.Text = text.AppendDeferredTitle(b.Text, s.Cookie)
		} else {
			b.Text = append(text.AppendStockTitle(b.Text), '\n')
		}
		p.frames(b, r, *st)
	})
}

// UnwoundStack prints a stack whose frames ustack has found: addresses, and how each was found.
func (f *Foreign) UnwoundStack(b *tracefs.Batch, m *Moment, frames []tracefs.Frame) {
	f.record(b, m, tracefs.KindStack, func(_ *Printer, r *tracefs.Record) {
		bare := r.Flags&tracefs.NoText != 0
		if !bare {
			b.Text = append(text.AppendUnwound(text.AppendStockTitle(b.Text), frames), '\n')
		}
		for i := range frames {
			one := frames[i]
			one.Off = uint32(len(b.Text))
			if !bare {
				b.Text = tracefs.AppendAddrText(b.Text, one.Addr)
			}
			one.AddrEnd, one.End = uint32(len(b.Text)), uint32(len(b.Text))
			if !bare {
				b.Text = append(b.Text, '\n')
			}
			b.Frames = append(b.Frames, one)
		}
		r.Hi = uint32(len(b.Frames))
	})
}

// bareStack adds a stack without text to the record of the event before it. It reports
// false if that is not the last record of the batch.
func (f *Foreign) bareStack(b *tracefs.Batch, m *Moment, st *stack) bool {
	n, at := len(b.Records), uint32(len(b.Text))
	if n == 0 {
		return false
	}
	event := &b.Records[n-1]
	if event.Origin == 0 || event.TID != validTID(m.TID) || event.CPU != m.CPU || event.End != at ||
		event.Kind != tracefs.KindEvent && event.Kind != tracefs.KindKernelStack {
		return false
	}
	tid, origin := event.TID, event.Origin
	r := b.AddRecord()
	r.Off, r.Body, r.End, r.CPU, r.TID = at, at, at, m.CPU, tid
	r.Lo, r.Hi, r.Kind, r.Flags, r.Origin = uint32(len(b.Frames)), uint32(len(b.Frames)), tracefs.KindStack, tracefs.NoText, origin
	f.printer.addressesOf(b, r, st)
	b.Lines += b.LinesOf(r)
	return true
}

// spaceKey returns what, besides the addresses, identifies a template.
func (f *Foreign) spaceKey(pid, space uint64) []byte {
	binary.LittleEndian.PutUint64(f.space[:], pid)
	binary.LittleEndian.PutUint64(f.space[8:], space)
	return f.space[:]
}

// record appends a record whose body print makes: whole lines.
func (f *Foreign) record(b *tracefs.Batch, m *Moment, kind tracefs.Kind, print func(*Printer, *tracefs.Record)) {
	p, n, origins := f.printer, len(b.Records), len(b.Origins)
	rec := m.Raw
	if len(rec) < len(f.common) {
		rec = f.common
		putNumber(rec[p.pid.off:][:p.pid.size], uint64(uint32(m.TID)), p.env.BigEndian)
	}
	r := b.AddRecord()
	r.Off, r.CPU, r.TID, r.Kind = uint32(len(b.Text)), m.CPU, validTID(m.TID), kind
	r.Lo, r.Hi = uint32(len(b.Frames)), uint32(len(b.Frames))
	c := p.commonOf(rec)
	t := p.task(m.Time, c)
	p.origin(b, r, t, m.Time, c)
	if r.Origin != 0 && m.PID > 0 {
		b.Origins[origins].TGID = m.PID
	}
	if p.noText && kind == tracefs.KindStack && r.Origin != 0 {
		r.Flags, r.Body = tracefs.NoText, r.Off
		print(p, r)
		b.Lines += b.LinesOf(r)
	} else {
		b.Text = p.head(b.Text, t, m.CPU, m.Time, c)
		r.Body = uint32(len(b.Text))
		print(p, r)
	}
	r.End = uint32(len(b.Text))
	if kind == tracefs.KindEvent {
		b.Events++
	}
	if !p.wantEvents && (kind == tracefs.KindEvent || kind == tracefs.KindKernelStack) {
		b.Records, b.Origins = b.Records[:n], b.Origins[:origins]
	}
}

// putNumber writes a number of the traced machine.
func putNumber(b []byte, v uint64, big bool) {
	for i := range b {
		at := i
		if big {
			at = len(b) - 1 - i
		}
		b[at] = byte(v >> (8 * i))
	}
}
