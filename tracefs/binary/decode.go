package binary

import (
	"math"
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/syscalls"
	"ustack/tracefs/text"
)

// decodeFunc fills in what r says of a record without putting it into words.
type decodeFunc = func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte)

// decoder returns what decodes records of an event without text, nil for events that must
// have text.
func (p *Printer) decoder(f *format.Event) decodeFunc {
	switch {
	case (f.System == "ftrace" || f.System == "") && f.Name == "user_stack":
		return p.decodeStack(f)
	case f.System != "syscalls":
		return nil
	}
	if name, ok := strings.CutPrefix(f.Name, "sys_enter_"); ok {
		return decodeEnter(f, syscalls.Named(name))
	}
	if name, ok := strings.CutPrefix(f.Name, "sys_exit_"); ok {
		return decodeExit(f, syscalls.Named(name))
	}
	return nil
}

// decodeEnter decodes the entry into a call of the futex family, or restart_syscall.
func decodeEnter(f *format.Event, call syscalls.Call) decodeFunc {
	if call == syscalls.Other {
		return nil
	}
	type argument struct {
		arg   syscalls.Arg
		value field
	}
	var args []argument
	for i := range f.Fields {
		x := &f.Fields[i]
		if arg, ok := syscalls.ArgNamed(x.Name); ok && x.Loc == format.Inline && !x.Array {
			args = append(args, argument{arg, fieldOf(f, x.Name)})
		}
	}
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		var values syscalls.Args
		for i := range args {
			values.Set(args[i].arg, args[i].value.get(p, rec))
		}
		p.call(b, r).Enter(call, &values)
	}
}

// decodeExit decodes the return from one.
func decodeExit(f *format.Event, call syscalls.Call) decodeFunc {
	ret := fieldOf(f, "ret")
	if call == syscalls.Other || !ret.ok {
		return nil
	}
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		p.call(b, r).Return(call, int64(ret.get(p, rec)))
	}
}

// call makes room for a system call.
func (p *Printer) call(b *tracefs.Batch, r *tracefs.Record) *syscalls.Event {
	return b.AddCall(r)
}

// decodeStack decodes a stack of addresses, if the kernel's text would have had room
// for all of them.
func (p *Printer) decodeStack(f *format.Event) decodeFunc {
	caller, tgid, long := f.Field("caller"), fieldOf(f, "tgid"), p.env.LongSize
	if caller == nil || caller.Size <= 0 || caller.Size/long*text.PlainLine > maxSeq/2 {
		return nil
	}
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		p.process(b, tgid.get(p, rec))
		data := from(rec, caller.Offset)
		p.addresses(b, r, data[:min(len(data), caller.Size)])
	}
}

// addresses makes frames of a stack, up to the first address of 0.
func (p *Printer) addresses(b *tracefs.Batch, r *tracefs.Record, data []byte) {
	p.addressesOf(b, r, &stack{addrs: data})
}

// addressesOf makes frames of a stack without identifiers.
func (p *Printer) addressesOf(b *tracefs.Batch, r *tracefs.Record, s *stack) {
	data := s.addrs
	slot := p.templates.find(s)
	if slot != nil && slot.template != nil {
		r.Template, r.FrameText = p.templates.use(b, slot), r.Off
		return
	}
	for long := p.env.LongSize; len(data) >= long; data = data[long:] {
		addr := p.number(data, long)
		if addr == 0 && !s.zeros {
			break
		}
		b.Frames = append(b.Frames, tracefs.Frame{Addr: addr, HasAddr: true, Form: tracefs.FormPlain})
	}
	r.Hi = uint32(len(b.Frames))
	if slot != nil {
		slot.build(s, nil, b.Frames[r.Lo:r.Hi])
	}
}

// process notes the process that the last record has.
func (p *Printer) process(b *tracefs.Batch, tgid uint64) {
	if n := len(b.Origins); n > 0 && int32(tgid) > 0 && b.Records[len(b.Records)-1].Origin == uint32(n) {
		b.Origins[n-1].TGID = int32(tgid)
	}
}

// origin gives the record an Origin: what a reader of its text would find there.
func (p *Printer) origin(b *tracefs.Batch, r *tracefs.Record, t *task, time uint64, c common) {
	if t.odd || time > math.MaxInt64/2 {
		return
	}
	n := len(b.Origins)
	if n < cap(b.Origins) { // a whole one is not copied
		b.Origins = b.Origins[:n+1]
	} else {
		b.Origins = append(b.Origins, tracefs.Origin{})
	}
	o := &b.Origins[n]
	o.Time, o.Exact, o.Comm, o.TGID = tracefs.Time(time), tracefs.Time(time), t.comm, t.tgid
	if p.nanoseconds {
		o.Time = tracefs.Time(microseconds(time) * 1000)
	}
	if o.Flags = [tracefs.FlagColumns]byte{}; !p.k.Options.NoIRQInfo {
		o.Flags = p.flagColumns(c)
	}
	r.Origin = uint32(n + 1)
}

// flagColumns returns the irq-info columns of a record; most are like the last.
func (p *Printer) flagColumns(of common) [tracefs.FlagColumns]byte {
	if c := &p.columns; !c.ok || c.flags != of.flags || c.preempt != of.preempt {
		c.flags, c.preempt, c.ok = of.flags, of.preempt, true
		appendFlags(c.text[:0], of.flags, of.preempt, p.lazy)
	}
	return p.columns.text
}

// columns are the irq-info columns of the last record.
type columns struct {
	flags, preempt uint8
	ok             bool
	text           [tracefs.FlagColumns]byte
}
