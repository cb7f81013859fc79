package procmap

import (
	"bytes"
	"errors"
	"fmt"

	"ustack/tracefs/escape"
)

// ParseLine reads a line of /proc/PID/maps, with or without its line feed
// (show_vma_header_prefix in fs/proc/task_mmu.c):
//
//	START-END PERMS OFFSET MAJ:MIN INODE  NAME
//
// In the name \012 becomes a line feed. That is a guess: the kernel escapes
// line feeds, but not the backslash, so a file may really have such a name. A Reader
// looks (Handle.settleName).
func ParseLine(line []byte) (Mapping, error) { return parseLine(line, unescape) }

// ParseSaved reads a line that Mapping.AppendSaved has written, with or without its
// line feed.
func ParseSaved(line []byte) (Mapping, error) { return parseLine(line, escape.Undo) }

func parseLine(line []byte, plain func([]byte) []byte) (Mapping, error) {
	var m Mapping
	name, err := m.parse(line)
	if err != nil {
		return Mapping{}, err
	}
	m.Name = string(plain(name))
	m.Kind = Classify(m.Name, m.Dev, m.Inode)
	return m, nil
}

// errLine is the error of a line; ParseLine's error shows the line.
var errLine = errors.New("not a line of /proc/PID/maps")

// parse sets all but the name and the kind. The name it returns lies in line, as it
// is there.
func (m *Mapping) parse(line []byte) (name []byte, err error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	p := fields{rest: line, ok: true}
	m.Start = p.hex('-')
	m.End = p.hex(' ')
	m.Perms = p.perms()
	m.Offset = p.hex(' ')
	m.Dev.Major = p.hex32(':')
	m.Dev.Minor = p.hex32(' ')
	m.Inode = p.decimal()
	if !p.ok || m.End <= m.Start {
		const shown = 100
		return nil, fmt.Errorf("%w: %q", errLine, line[:min(len(line), shown)])
	}
	return p.name(len(line)), nil
}

// name returns the rest of a line of n bytes: it begins at nameColumn, unless
// the numbers were too wide to leave two blanks before it, and then after two
// (the one after the inode, and seq_pad's). On 32 bits, and in mappings written
// by hand, the column is another one, so any number of blanks is taken.
func (p *fields) name(n int) []byte {
	const blanks = 2
	if at := nameColumn - (n - len(p.rest)); at >= blanks && at <= len(p.rest) && len(bytes.TrimLeft(p.rest[:at], " ")) == 0 {
		return p.rest[at:]
	}
	return bytes.TrimLeft(p.rest, " ")
}

func unescape(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	return bytes.ReplaceAll(name, []byte(`\012`), []byte("\n"))
}

// fields reads the fields of a line one after the other. ok is false once one
// was not what it should be.
type fields struct {
	rest []byte
	ok   bool
}

// hex reads a number of at most 16 digits, and the byte after it.
func (p *fields) hex(after byte) uint64 {
	var v uint64
	for i, c := range p.rest {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		case c == after && i > 0 && i <= 16:
			p.rest = p.rest[i+1:]
			return v
		default:
			p.ok = false
			return 0
		}
	}
	p.ok = false
	return 0
}

func (p *fields) hex32(after byte) uint32 {
	v := p.hex(after)
	if v>>32 != 0 {
		p.ok = false
	}
	return uint32(v)
}

// decimal reads a number up to a blank or the end of the line.
func (p *fields) decimal() uint64 {
	const limit = (1<<64 - 1) / 10
	var v uint64
	for i, c := range p.rest {
		d := uint64(c - '0')
		if c == ' ' && i > 0 {
			p.rest = p.rest[i:]
			return v
		}
		if d > 9 || v > limit || v*10+d < v*10 {
			p.ok = false
			return 0
		}
		v = v*10 + d
	}
	p.ok = p.ok && len(p.rest) > 0
	p.rest = nil
	return v
}

// perms reads four letters and a blank.
func (p *fields) perms() Perms {
	var v Perms
	if len(p.rest) < 5 || p.rest[4] != ' ' {
		p.ok = false
		return 0
	}
	for i, set := range []struct {
		yes, no byte
		bit     Perms
	}{{'r', '-', Read}, {'w', '-', Write}, {'x', '-', Exec}, {'s', 'p', Shared}} {
		switch p.rest[i] {
		case set.yes:
			v |= set.bit
		case set.no:
		default:
			p.ok = false
		}
	}
	p.rest = p.rest[5:]
	return v
}
