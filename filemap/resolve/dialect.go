package resolve

import (
	"fmt"

	"ustack/filemap"
	"ustack/tracefs"
)

// Dialect is a way of the kernel to write user frames (FORMATS section 2).
type Dialect uint8

// The dialects. Auto recognises all by themselves; only Plain and Offset look
// alike and may have to be forced.
const (
	Auto     Dialect = iota
	Plain            // D0: virtual addresses
	Offset           // D1: offsets in files, and no word about which file
	Inode            // D2, D3: inode and device
	Hash             // D4
	Resolved         // D5: path and build ID
	Stock            // <user stack trace>
)

var dialectNames = [...]string{"auto", "plain", "offset", "inode", "hash", "resolved", "stock"}

// String is the name as used in flags and outputs.
func (d Dialect) String() string { return dialectNames[d] }

// ParseDialect reads a name, or D0 to D5.
func ParseDialect(name string) (Dialect, error) {
	for d, n := range dialectNames {
		if n == name {
			return Dialect(d), nil
		}
	}
	numbered := map[string]Dialect{"D0": Plain, "D1": Offset, "D2": Inode, "D3": Inode, "D4": Hash, "D5": Resolved}
	if d, ok := numbered[name]; ok {
		return d, nil
	}
	return Auto, fmt.Errorf("unknown dialect %q (one of auto, plain, offset, inode, hash, resolved, stock, D0 to D5)", name)
}

// votes count what the plain deferred stacks look like. Offsets in files are
// small, addresses of position independent programs and libraries are not;
// one stack of a program that is linked to 0x400000 proves nothing.
type votes struct {
	plain, offset int
}

const (
	largestFile = 1 << 32  // offsets are below
	lowestText  = 0x400000 // of a program that is not position independent
)

// plainStack decides what a deferred stack without identifiers is made of.
func (r *Resolver) plainStack(text []byte, frames []tracefs.Frame, out []Outcome) {
	low, high, tiny := 0, 0, 0
	for k := range frames {
		if frames[k].Form != tracefs.FormPlain {
			continue
		}
		switch a := frames[k].Address(text); {
		case a < lowestText:
			tiny++
			low++
		case a < largestFile:
			low++
		default:
			high++
		}
	}
	switch {
	case tiny > 0 && low > high:
		r.votes.offset++
	case high > low:
		r.votes.plain++
	}
	reason := filemap.NoAddressSpace
	if r.PlainDialect() == Offset {
		reason = filemap.NoIdentifier
	}
	for k := range frames {
		if frames[k].Form == tracefs.FormPlain {
			out[k] = unnamed(reason)
		}
	}
}

// PlainDialect is Plain or Offset, what frames with a number and nothing else
// are taken for.
func (r *Resolver) PlainDialect() Dialect {
	if r.opt.Dialect == Plain || r.opt.Dialect == Offset {
		return r.opt.Dialect
	}
	if r.votes.offset > r.votes.plain {
		return Offset
	}
	return Plain
}

// DialectOf returns the dialect of a stack by the first frame that shows it, Auto
// if no frame does.
func (r *Resolver) DialectOf(b *tracefs.Batch, rec *tracefs.Record) Dialect {
	if r.opt.Dialect != Auto {
		return r.opt.Dialect
	}
	if rec.Flags&tracefs.Deferred == 0 {
		return Stock
	}
	frames, _ := b.StackFrames(rec)
	for k := range frames {
		switch f := &frames[k]; {
		case f.Form == tracefs.FormIdentifier && f.ID.IsInode():
			return Inode
		case f.Form == tracefs.FormIdentifier:
			return Hash
		case f.Form == tracefs.FormResolved:
			return Resolved
		case f.Form == tracefs.FormPlain:
			return r.PlainDialect()
		}
	}
	return Auto
}
