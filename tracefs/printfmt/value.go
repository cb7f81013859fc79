package printfmt

import (
	"bytes"
	"encoding/binary"
)

// Env is what a program runs on: one record, and what the kernel knows beside
// it.
type Env struct {
	// Record is the payload, common_type and all that follows.
	Record []byte
	// BigEndian and LongSize are the traced machine's.
	BigEndian bool
	LongSize  int
	// Symbol appends the name of a kernel address, with "+0xoff/0xsize" if
	// offset is set, and reports whether it is known (kallsyms). May be nil.
	Symbol func(b []byte, addr uint64, offset bool) ([]byte, bool)
	// IsText reports whether an address lies in the kernel's code. May be
	// nil.
	IsText func(addr uint64) bool
	// String finds a string of the kernel's by its address
	// (printk_formats). May be nil.
	String func(addr uint64) (string, bool)

	locals [maxLocals]uint64
	// args are the arguments of a trace_printk, arg where the next one is.
	args []byte
	arg  int
}

func (e *Env) order() binary.ByteOrder {
	if e.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// ctype is an integer type, or a pointer to one.
type ctype struct {
	bits    uint8 // 8 to 64; of what it points to if it is a pointer
	signed  bool
	pointer bool
}

// fit makes a value of the type: cut, and extended by its sign.
func (t ctype) fit(v uint64) uint64 {
	shift := 64 - uint(t.bits)
	if t.signed {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

// promote returns the type that C converts small integers to before it
// computes.
func (t ctype) promote() ctype {
	if t.bits < 32 {
		return ctype{bits: 32, signed: true}
	}
	return ctype{bits: t.bits, signed: t.signed}
}

// common returns the type that C computes two operands in.
func common(a, b ctype) ctype {
	a, b = a.promote(), b.promote()
	switch {
	case a.bits > b.bits:
		return a
	case b.bits > a.bits:
		return b
	}
	return ctype{bits: a.bits, signed: a.signed && b.signed}
}

// value is an expression: exactly one of num, str and mem is set.
type value struct {
	// num gives an integer, fitted to typ.
	num func(*Env) uint64
	// str appends text.
	str func(*Env, []byte) []byte
	// mem gives the record from where a pointer into it points, nil if that
	// is outside. typ is what it points to.
	mem func(*Env) []byte
	typ ctype

	constant bool
	k        uint64
	// isConst is set if a string is always text.
	isConst bool
	text    string
	// read is set for a plain field, so that it can be read without a call.
	read *fieldRead
}

// fieldRead is where a field lies.
type fieldRead struct {
	off    int
	size   int
	signed bool
}

func constant(v uint64, t ctype) value {
	v = t.fit(v)
	return value{num: func(*Env) uint64 { return v }, typ: t, constant: true, k: v}
}

func text(s string) value {
	return value{str: func(_ *Env, b []byte) []byte { return append(b, s...) }, isConst: true, text: s}
}

var intType = ctype{bits: 32, signed: true}

// asString makes text of what %s can print.
func (v value) asString() (value, bool) {
	switch {
	case v.str != nil:
		return v, true
	case v.mem != nil && v.typ.bits == 8:
		mem := v.mem
		return value{str: func(e *Env, b []byte) []byte { return append(b, cString(mem(e))...) }}, true
	case v.constant && v.k == 0:
		return text("(null)"), true
	case v.num != nil && v.typ.bits == 64 && !v.constant:
		num := v.num
		return value{str: func(e *Env, b []byte) []byte { return e.appendString(b, num(e)) }}, true
	}
	return v, false
}

// appendString appends the kernel's string at an address, or says what the
// address is.
func (e *Env) appendString(b []byte, addr uint64) []byte {
	if addr == 0 {
		return append(b, "(null)"...)
	}
	if e.String != nil {
		if s, ok := e.String(addr); ok {
			return append(b, s...)
		}
	}
	return appendHex(append(b, "0x"...), addr)
}

// cString returns what stands before the first NUL.
func cString(b []byte) []byte {
	if n := bytes.IndexByte(b, 0); n >= 0 {
		return b[:n]
	}
	return b
}

// number reads an integer of size bytes at the beginning of b, 0 if there are
// fewer.
func (e *Env) number(b []byte, size int, signed bool) uint64 {
	if len(b) < size {
		return 0
	}
	var v uint64
	switch size {
	case 1:
		v = uint64(b[0])
		if signed {
			v = uint64(int8(v))
		}
	case 2:
		v = uint64(e.order().Uint16(b))
		if signed {
			v = uint64(int16(v))
		}
	case 4:
		if e.BigEndian {
			v = uint64(binary.BigEndian.Uint32(b))
		} else {
			v = uint64(binary.LittleEndian.Uint32(b))
		}
		if signed {
			v = uint64(int32(v))
		}
	case 8:
		if e.BigEndian {
			v = binary.BigEndian.Uint64(b)
		} else {
			v = binary.LittleEndian.Uint64(b)
		}
	}
	return v
}

// field reads a plain field; the record may be too short.
func (e *Env) field(r *fieldRead) uint64 {
	if r.off > len(e.Record) {
		return 0
	}
	return e.number(e.Record[r.off:], r.size, r.signed)
}

// dynamic returns the data of a __data_loc or __rel_loc field (length is the
// array's), nil if it lies outside of the record.
func (e *Env) dynamic(off int, relative bool) (data []byte, length int) {
	if off+4 > len(e.Record) {
		return nil, 0
	}
	v := e.number(e.Record[off:], 4, false)
	at, length := int(v&0xffff), int(v>>16)
	if relative {
		at += off + 4
	}
	if at > len(e.Record) {
		return nil, 0
	}
	return e.Record[at:], length
}
