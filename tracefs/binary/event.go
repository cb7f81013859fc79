package binary

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/escape"
	"ustack/tracefs/format"
	"ustack/tracefs/printfmt"
	"ustack/tracefs/syscalls"
	"ustack/tracefs/text"
)

// event is how the records of one event are printed.
type event struct {
	format *format.Event
	kind   tracefs.Kind
	// whole: what print appends is a whole line, or lines, and escaped.
	whole bool
	// print appends the body to b.Text and fills in what r says of it.
	print func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte)
	// flags are the flags of every record.
	flags tracefs.Flags
	// decode does without text, nil if that cannot be.
	decode decodeFunc
	role   role
}

// internals are the printers of ftrace's own records, which the kernel does not
// print by their print fmt (init_events in kernel/trace/trace_output.c).
var internals = map[string]struct {
	kind   tracefs.Kind
	create func(*Printer, *format.Event) printFunc
}{
	"user_unwind_cookie": {tracefs.KindCookie, newCookie},
	"user_unwind_stack":  {tracefs.KindStack, newUnwind},
	"user_stack":         {tracefs.KindStack, newUserStack},
	"kernel_stack":       {tracefs.KindKernelStack, newKernelStack},
	"print":              {tracefs.KindEvent, newMarker},
	"bprint":             {tracefs.KindEvent, newPrintk},
	"bputs":              {tracefs.KindEvent, newPuts},
	"raw_data":           {tracefs.KindEvent, newRawMarker},
	"function":           {tracefs.KindEvent, newFunction},
}

type printFunc = func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte)

// event finds the printer of a type, and makes it when it is first met.
func (p *Printer) event(id int) *event {
	if id < len(p.events) && p.events[id] != nil {
		return p.events[id]
	}
	if id >= len(p.events) {
		p.events = append(p.events, make([]*event, id+1-len(p.events))...)
	}
	if f := p.formats[id]; f != nil {
		p.events[id] = p.compile(f)
	} else {
		p.events[id] = unknown(id)
	}
	return p.events[id]
}

// unknown returns what the kernel prints for a type it has no printer for.
func unknown(id int) *event {
	return &event{kind: tracefs.KindEvent, whole: true, print: func(_ *Printer, b *tracefs.Batch, _ *tracefs.Record, _ []byte) {
		b.Text = append(b.Text, "Unknown type "...)
		b.Text = append(strconv.AppendInt(b.Text, int64(id), 10), '\n')
	}}
}

func (p *Printer) compile(f *format.Event) *event {
	e := &event{format: f, kind: tracefs.KindEvent, role: roleOf(f)}
	if p.noText {
		e.decode = p.decoder(f)
	}
	switch {
	case f.System == "ftrace" || f.System == "":
		if own, ok := internals[f.Name]; ok {
			e.kind, e.print = own.kind, own.create(p, f)
			e.whole = own.kind != tracefs.KindEvent
			break
		}
		e.print = p.byPrintFmt(f)
	case f.System == "syscalls" && strings.HasPrefix(f.Name, "sys_enter_"):
		e.whole, e.flags = numbersOnly(f), returns(f)
		if f.Name == "sys_enter_openat" {
			e.print = newOpenat(p, f)
		}
		if e.print == nil {
			e.print = newSyscallEnter(p, f)
		}
	case f.System == "syscalls" && strings.HasPrefix(f.Name, "sys_exit_"):
		e.print, e.whole, e.flags = newSyscallExit(p, f), numbersOnly(f), returns(f)
	default:
		e.print = p.byPrintFmt(f)
	}
	if text.IsMappingEvent(f.Name) {
		e.kind, e.print, e.whole = tracefs.KindMappingEvent, announce(f, e.print), true
	}
	return e
}

// returns returns the flag Returns, if the event is of a call that does.
func returns(f *format.Event) tracefs.Flags {
	if syscalls.Returns([]byte(f.Name + ":")) {
		return tracefs.Returns
	}
	return 0
}

// byPrintFmt prints "NAME: " and what the print fmt says, or the fields if the
// print fmt cannot be evaluated.
func (p *Printer) byPrintFmt(f *format.Event) printFunc {
	byFields := func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		p.env.Record = rec
		b.Text = append(append(b.Text, f.Name...), ':')
		b.Text = append(printfmt.AppendFields(b.Text, f, &p.env), '\n')
	}
	program, err := printfmt.Compile(probe(f), p.env.LongSize)
	if err != nil {
		return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
			p.notes.fields(f, err)
			byFields(p, b, r, rec)
		}
	}
	name := f.Name + ": "
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		if len(rec) < f.Size {
			byFields(p, b, r, rec)
			return
		}
		p.env.Record = rec
		b.Text = append(b.Text, name...)
		b.Text = append(program.Append(b.Text, &p.env), '\n')
	}
}

// probe gives the events of kprobes and uprobes the print fmt that the kernel's
// own printers of them amount to: addresses by symbol, which user addresses do
// not have, and where a return probe returns to before the function
// (print_kprobe_event, print_kretprobe_event in kernel/trace/trace_kprobe.c).
func probe(f *format.Event) *format.Event {
	if f.Field("__probe_ip") == nil && f.Field("__probe_func") == nil {
		return f
	}
	out := *f
	out.PrintFmt = probeFmt.Replace(f.PrintFmt)
	return &out
}

var probeFmt = strings.NewReplacer(
	`"(%lx)`, `"(%pS)`,
	`"(%lx <- %lx)`, `"(%pS <- %ps)`,
	`REC->__probe_func, REC->__probe_ret_ip`, `REC->__probe_ret_ip, REC->__probe_func`,
)

// numbersOnly reports whether a system call's text has no untrusted string.
func numbersOnly(f *format.Event) bool {
	words := f.Name
	for i := range f.Fields {
		if f.Fields[i].Loc != format.Inline {
			return false
		}
		words += f.Fields[i].Type + f.Fields[i].Name
	}
	return escape.Index([]byte(words)) < 0
}

// endLine makes one line of what stands in b from a place on: escaped, and with a
// line feed, which text of the kernel's may lack (trace_printk of an unfinished
// line; a marker with a NUL).
func endLine(b []byte, from int) []byte {
	if n := len(b) - 1; n >= from && b[n] == '\n' {
		b = b[:n]
	}
	return append(escape.Tail(b, from), '\n')
}

// announce parses the text of a mapping event.
func announce(f *format.Event, print printFunc) printFunc {
	identified := f.Field("build_id") != nil
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		print(p, b, r, rec)
		body := bytes.Clone(bytes.TrimSuffix(b.Text[r.Body:], []byte("\n")))
		b.Text = append(text.AppendMappingEvent(b.Text[:r.Body], body, identified), '\n')
		b.AddMappingEvent(r, text.ParseMappingEvent(b.Text[r.Body:]))
	}
}

// Print appends a record to the batch: its text, and a Record unless it is of an
// event and Options.Events is unset.
func (p *Printer) Print(b *tracefs.Batch, cpu int32, time uint64, rec []byte) {
	c := p.commonOf(rec)
	n, tid, e := len(b.Records), validTID(c.pid), p.event(c.typ)
	leave, spared := p.spared(cpu, tid, e, c, rec)
	if leave {
		return
	}
	r, t := b.AddRecord(), p.task(time, c)
	r.Off, r.CPU, r.TID, r.Kind, r.Flags = uint32(len(b.Text)), cpu, tid, e.kind, e.flags|spared
	r.Lo, r.Hi = uint32(len(b.Frames)), uint32(len(b.Frames))
	origins, calls := len(b.Origins), len(b.Calls)
	p.origin(b, r, t, time, c)
	if e.decode != nil && r.Origin != 0 {
		r.Flags, r.Body = r.Flags|tracefs.NoText, r.Off
		e.decode(p, b, r, rec)
		b.Lines += b.LinesOf(r)
	} else {
		b.Text = p.head(b.Text, t, cpu, time, c)
		r.Body = uint32(len(b.Text))
		e.print(p, b, r, rec)
		if !e.whole {
			b.Text = endLine(b.Text, int(r.Body))
		}
	}
	r.End = uint32(len(b.Text))
	if r.Kind == tracefs.KindEvent {
		b.Events++
	}
	if !p.wantEvents && (r.Kind == tracefs.KindEvent || r.Kind == tracefs.KindKernelStack) {
		b.Records, b.Origins, b.Calls = b.Records[:n], b.Origins[:origins], b.Calls[:calls]
	}
}

// Lost appends the kernel's note that records of a CPU were lost; a count of 0
// is one that the kernel did not know.
func (p *Printer) Lost(b *tracefs.Batch, cpu int32, count uint64) {
	p.spare.lost()
	at := uint32(len(b.Text))
	r := tracefs.Record{Off: at, Body: at, CPU: cpu, TID: tracefs.NoTID, Kind: tracefs.KindLost, Value: count}
	b.Text = text.AppendLost(b.Text, cpu, count)
	r.End = uint32(len(b.Text))
	b.Records = append(b.Records, r)
}

// notes are facts to be reported once.
type notes struct {
	said map[string]bool
	list []string
}

// maxNotes bounds the list; a kernel has a few thousand events.
const maxNotes = 100

func (n *notes) fields(f *format.Event, err error) {
	if n.said[f.Name] || len(n.list) >= maxNotes {
		return
	}
	if n.said == nil {
		n.said = make(map[string]bool)
	}
	n.said[f.Name] = true
	n.list = append(n.list, fmt.Sprintf("event %s is printed field by field: %v", f.Name, err))
}
