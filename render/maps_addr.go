package render

import (
	"io"

	"ustack/filemap"
	"ustack/filemap/procmap"
)

// Addresses writes what is mapped at addresses of a process: a file, the offset
// in it and the build ID.
type Addresses struct {
	w    io.Writer
	buf  []byte
	json bool
}

// NewAddresses returns a list on w, text or lines of JSON.
func NewAddresses(w io.Writer, json bool) *Addresses { return &Addresses{w: w, json: json} }

// Address writes one address of a process. m is nil if nothing is mapped
// there.
func (a *Addresses) Address(p *procmap.Process, addr uint64, m *procmap.Mapping) error {
	if a.json {
		a.line(p, addr, m)
	} else {
		a.text(addr, m)
	}
	if len(a.buf) < flushAt {
		return nil
	}
	return a.Flush()
}

// Flush writes the buffer.
func (a *Addresses) Flush() error { return flush(a.w, &a.buf) }

func (a *Addresses) line(p *procmap.Process, addr uint64, m *procmap.Mapping) {
	b := appendProcess(a.buf, p.PID, p.Stat.Comm)
	b = appendHex(append(b, `,"address":`...), addr)
	if m == nil {
		b = append(append(append(b, `,"reason":"`...), filemap.NoVMA.String()...), '"')
	} else {
		b = appendMapping(b, m, m.FileOffset(addr))
	}
	a.buf = append(b, "}\n"...)
}

func (a *Addresses) text(addr uint64, m *procmap.Mapping) {
	b := appendPlainHex(append(a.buf, "0x"...), addr, 1)
	b = append(b, ' ')
	switch {
	case m == nil:
		b = append(append(b, "- - "...), filemap.NoVMA.String()...)
	case m.Kind.HasFile() || m.Kind == procmap.VDSO:
		b = appendPlainHex(append(b, "0x"...), m.FileOffset(addr), 1)
		b = append(b, ' ')
		if m.BuildID.IsZero() {
			b = append(b, '-')
		}
		b = append(m.BuildID.AppendHex(b), ' ')
		b = appendName(b, m)
	default:
		b = appendName(append(b, "- - "...), m)
	}
	a.buf = append(b, '\n')
}
