package binary

import (
	"bytes"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/text"
)

// newCookie prints "cookie=1a7700000003".
func newCookie(_ *Printer, f *format.Event) printFunc {
	cookie := fieldOf(f, "cookie")
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		r.Value = cookie.get(p, rec)
		b.Text = append(text.AppendCookie(b.Text, r.Value), '\n')
	}
}

// maxSeq is how much text the kernel makes of one record: the size of struct
// trace_seq's buffer (TRACE_SEQ_BUFFER_SIZE in include/linux/trace_seq.h). A
// longer one is cut where the first piece did not fit.
const maxSeq = 8<<10 - 36

// newUserStack prints the stack of option userstacktrace.
func newUserStack(_ *Printer, f *format.Event) printFunc {
	caller, tgid := f.Field("caller"), fieldOf(f, "tgid")
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		p.process(b, tgid.get(p, rec))
		b.Text = append(text.AppendStockTitle(b.Text), '\n')
		if caller == nil {
			return
		}
		data := from(rec, caller.Offset)
		if caller.Size > 0 {
			data = data[:min(len(data), caller.Size)]
		}
		p.frames(b, r, stack{addrs: data})
	}
}

// newUnwind prints a deferred stack, in the dialect that the fields show.
func newUnwind(_ *Printer, f *format.Event) printFunc {
	cookie, addrs := fieldOf(f, "cookie"), f.Field("stack")
	hash, inodes, dev := f.Field("hash"), f.Field("inodes"), f.Field("dev")
	return func(p *Printer, b *tracefs.Batch, r *tracefs.Record, rec []byte) {
		r.Flags |= tracefs.Deferred
		r.Value = cookie.get(p, rec)
		b.Text = text.AppendDeferredTitle(b.Text, r.Value)
		var s stack
		if addrs != nil {
			s.addrs = p.dynamic(rec, addrs)
		}
		switch {
		case hash != nil:
			s.hashes = p.dynamic(rec, hash)
			s.hashed = true
		case inodes != nil && dev != nil:
			s.inodes, s.devs = p.dynamic(rec, inodes), p.dynamic(rec, dev)
			s.inoded = true
		}
		p.frames(b, r, s)
	}
}

// stack is the arrays of a stack record, as they lie there.
type stack struct {
	addrs, hashes, inodes, devs []byte
	hashed, inoded              bool
	// settled: inodes is what the process had mapped, as a number, and the Template is
	// to be (tracefs.Template.Settled).
	settled bool
	// alone: it has no Template, as the same addresses may be other files the next time.
	alone bool
	// zeros: an address of 0 does not end the stack.
	zeros bool
}

// frames prints the lines of a user stack, up to the first address of 0, and
// makes frames of them.
func (p *Printer) frames(b *tracefs.Batch, r *tracefs.Record, s stack) {
	start := len(b.Text)
	slot := p.templates.find(&s)
	if slot != nil && slot.template != nil && start-int(r.Off)+len(slot.template.Text) < maxSeq {
		r.Template, r.FrameText = p.templates.use(b, slot), uint32(start)
		b.Text = append(b.Text, slot.template.Text...)
		return
	}
	long := p.env.LongSize
	for i := 0; (i+1)*long <= len(s.addrs); i++ {
		addr := p.number(s.addrs[i*long:], long)
		if addr == 0 && !s.zeros {
			break
		}
		f := tracefs.Frame{Addr: addr, HasAddr: true, Form: tracefs.FormPlain, Off: uint32(len(b.Text))}
		b.Text = p.addrText(b.Text, addr)
		f.AddrEnd = uint32(len(b.Text))
		p.identifier(b, &f, &s, i)
		f.End = uint32(len(b.Text))
		b.Text = append(b.Text, '\n')
		b.Frames = append(b.Frames, f)
		if len(b.Text)-int(r.Off) > maxSeq {
			p.cut(b, r)
			break
		}
	}
	r.Hi = uint32(len(b.Frames))
	if slot != nil && r.Flags&tracefs.Cut == 0 {
		slot.build(&s, b.Text[start:], b.Frames[r.Lo:r.Hi])
	}
}

// addrText prints " =>  <00007ff49fdce829>".
func (p *Printer) addrText(b []byte, addr uint64) []byte {
	if p.env.LongSize == 8 {
		return tracefs.AppendAddrText(b, addr)
	}
	return append(appendPadded(append(append(b, text.Arrow...), " <"...), addr, 8), '>')
}

// identifier prints what stands after the address in the dialects that have
// identifiers: " : 0x%x" or " : %ld : %d:%d".
func (p *Printer) identifier(b *tracefs.Batch, f *tracefs.Frame, s *stack, i int) {
	long := p.env.LongSize
	switch {
	case s.hashed && (i+1)*4 <= len(s.hashes):
		f.ID = tracefs.HashIdentifier(p.number(s.hashes[4*i:], 4))
		b.Text = append(b.Text, " : "...)
	case s.inoded && (i+1)*long <= len(s.inodes) && (i+1)*4 <= len(s.devs):
		const minorBits = 20 // of a dev_t in the kernel
		dev := uint32(p.number(s.devs[4*i:], 4))
		inode := p.number(s.inodes[i*long:], long)
		if long == 4 {
			inode = uint64(int32(inode))
		}
		f.ID = tracefs.InodeIdentifier(inode, dev>>minorBits, dev&(1<<minorBits-1))
		b.Text = append(b.Text, " : "...)
	default:
		return
	}
	f.Form = tracefs.FormIdentifier
	b.Text = f.ID.Append(b.Text)
}

// cut ends a record where the kernel does whose text has no room for all: pieces
// of a line that do not fit are left out, and with them all that follows. The line
// says so, where the kernel goes on with the next record.
func (p *Printer) cut(b *tracefs.Batch, r *tracefs.Record) {
	last := &b.Frames[len(b.Frames)-1]
	limit := r.Off + maxSeq
	const arrow = uint32(len(text.Arrow))
	end := last.Off
	// A string may fill the buffer, what is formatted must leave a byte.
	for _, piece := range [...]struct {
		end   uint32
		spare uint32
	}{{last.Off + arrow, 0}, {last.AddrEnd, 1}, {last.End, 1}} {
		if piece.end+piece.spare > limit {
			break
		}
		end = piece.end
	}
	b.Text = b.Text[:end]
	if end == last.Off {
		b.Frames = b.Frames[:len(b.Frames)-1]
		return
	}
	r.Flags |= tracefs.Cut
	if end < last.AddrEnd {
		last.Addr, last.HasAddr = 0, false
	}
	b.Text = append(b.Text, text.CutMark...)
	last.Form, last.ID, last.AddrEnd, last.End = tracefs.FormUnresolved, tracefs.Identifier{}, end, uint32(len(b.Text))
	b.Text = append(b.Text, '\n')
}

// newKernelStack prints "<stack trace>" and " => SYMBOL" lines. The array has
// as many elements as the record has room for; a ULONG_MAX ends it.
func newKernelStack(_ *Printer, f *format.Event) printFunc {
	caller := f.Field("caller")
	return func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		b.Text = append(text.AppendKernelTitle(b.Text), '\n')
		if caller == nil {
			return
		}
		long := p.env.LongSize
		for data := from(rec, caller.Offset); len(data) >= long; data = data[long:] {
			addr := p.number(data, long)
			if bytes.Count(data[:long], []byte{0xff}) == long {
				break
			}
			b.Text = append(b.Text, text.Arrow...)
			if addr == trampolineMarker {
				b.Text = append(b.Text, "[FTRACE TRAMPOLINE]\n"...)
				continue
			}
			from := len(b.Text)
			b.Text = endLine(p.symbol(b.Text, addr), from)
		}
	}
}

// trampolineMarker stands for a trampoline in a kernel stack
// (FTRACE_TRAMPOLINE_MARKER, INT_MAX as a long).
const trampolineMarker = 1<<31 - 1
