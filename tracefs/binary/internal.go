package binary

import (
	"bytes"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/printfmt"
)

// symbol prints a kernel address as option sym-offset and sym-addr ask
// (seq_print_ip_sym).
func (p *Printer) symbol(b []byte, addr uint64) []byte {
	if addr == 0 {
		return append(b, '0')
	}
	name, ok := p.k.Symbols.Append(b, addr, p.k.Options.SymOffset)
	if !ok {
		name = append(b, "0x"...)
		name = appendPadded(name, addr, 8)
	}
	if p.k.Options.SymAddr {
		name = append(name, " <"...)
		name = append(appendPadded(name, addr, 2*p.env.LongSize), '>')
	}
	return name
}

// appendPadded appends a hexadecimal number with at least so many digits.
func appendPadded(b []byte, v uint64, digits int) []byte {
	for n := digits - 1; n > 0 && v>>(4*n) == 0; n-- {
		b = append(b, '0')
	}
	return appendHex(b, v)
}

// cString returns what stands before the first NUL.
func cString(b []byte) []byte {
	if n := bytes.IndexByte(b, 0); n >= 0 {
		return b[:n]
	}
	return b
}

// from returns the part of a record from a fixed offset on.
func from(rec []byte, off int) []byte { return rec[min(off, len(rec)):] }

// newMarker prints what was written to trace_marker, or by trace_puts and
// trace_printk without a constant format: "tracing_mark_write: TEXT". The text
// brings its own line feed.
func newMarker(_ *Printer, f *format.Event) printFunc {
	ip, buf := fieldOf(f, "ip"), f.Field("buf")
	return func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		addr := ip.get(p, rec)
		if p.k.Symbols == nil {
			// The record does not name its writer. In kernels without debugging
			// aids only trace_marker writes these.
			b.Text = append(b.Text, "tracing_mark_write"...)
		} else {
			b.Text = p.symbol(b.Text, addr)
		}
		b.Text = append(b.Text, ": "...)
		if buf != nil {
			b.Text = append(b.Text, cString(from(rec, buf.Offset))...)
		}
	}
}

// newPuts prints trace_puts of a constant string.
func newPuts(_ *Printer, f *format.Event) printFunc {
	ip, str := fieldOf(f, "ip"), fieldOf(f, "str")
	return func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		b.Text = append(p.symbol(b.Text, ip.get(p, rec)), ": "...)
		b.Text = p.kernelString(b.Text, str.get(p, rec))
	}
}

// kernelString appends a constant string of the kernel by its address.
func (p *Printer) kernelString(b []byte, addr uint64) []byte {
	if s, ok := p.k.Strings[addr]; ok {
		return append(b, s...)
	}
	b = appendHex(append(b, "(0x"...), addr)
	return append(b, ")\n"...)
}

// newPrintk prints trace_printk with a constant format, whose arguments lie in
// the record (bstr_printf in lib/vsprintf.c).
func newPrintk(_ *Printer, f *format.Event) printFunc {
	ip, fmt, buf := fieldOf(f, "ip"), fieldOf(f, "fmt"), f.Field("buf")
	programs := make(map[uint64]*printfmt.Program)
	return func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		b.Text = append(p.symbol(b.Text, ip.get(p, rec)), ": "...)
		addr := fmt.get(p, rec)
		program, ok := programs[addr]
		if !ok {
			if s, known := p.k.Strings[addr]; known {
				var err error
				if program, err = printfmt.CompileBinary(s, p.env.LongSize); err != nil {
					p.notes.fields(f, err)
				}
				programs[addr] = program
			}
		}
		if program == nil || buf == nil {
			b.Text = p.kernelString(b.Text, addr)
			return
		}
		p.env.Record = rec
		b.Text = program.AppendBinary(b.Text, &p.env, from(rec, buf.Offset))
	}
}

// newRawMarker prints what was written to trace_marker_raw: "# 1 buf: 61 62".
func newRawMarker(_ *Printer, f *format.Event) printFunc {
	id, buf := fieldOf(f, "id"), f.Field("buf")
	return func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		b.Text = appendHex(append(b.Text, "# "...), id.get(p, rec))
		b.Text = append(b.Text, " buf:"...)
		if buf != nil {
			for _, c := range from(rec, buf.Offset) {
				b.Text = append(b.Text, ' ', hexDigits[c>>4], hexDigits[c&15])
			}
		}
		b.Text = append(b.Text, '\n')
	}
}

// newFunction prints the function tracer's records, "NAME <-CALLER".
func newFunction(_ *Printer, f *format.Event) printFunc {
	ip, parent := fieldOf(f, "ip"), fieldOf(f, "parent_ip")
	return func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		b.Text = p.symbol(b.Text, ip.get(p, rec))
		if caller := parent.get(p, rec); caller != 0 && !p.k.Options.NoParent {
			b.Text = p.symbol(append(b.Text, " <-"...), caller)
		}
		b.Text = append(b.Text, '\n')
	}
}
