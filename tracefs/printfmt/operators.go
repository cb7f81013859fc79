package printfmt

import (
	"errors"
	"fmt"

	"ustack/tracefs/format"
)

// operator is a binary operator of C. level is how tightly it binds.
type operator struct {
	level int
	// compute has both operands in the common type.
	compute func(t ctype, a, b uint64) uint64
	// truth is set if the result is 0 or 1, an int.
	truth bool
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func less(t ctype, a, b uint64) bool {
	if t.signed {
		return int64(a) < int64(b)
	}
	return a < b
}

var operators = map[string]operator{
	"||": {1, func(_ ctype, a, b uint64) uint64 { return truth(a != 0 || b != 0) }, true},
	"&&": {2, func(_ ctype, a, b uint64) uint64 { return truth(a != 0 && b != 0) }, true},
	"|":  {3, func(_ ctype, a, b uint64) uint64 { return a | b }, false},
	"^":  {4, func(_ ctype, a, b uint64) uint64 { return a ^ b }, false},
	"&":  {5, func(_ ctype, a, b uint64) uint64 { return a & b }, false},
	"==": {6, func(_ ctype, a, b uint64) uint64 { return truth(a == b) }, true},
	"!=": {6, func(_ ctype, a, b uint64) uint64 { return truth(a != b) }, true},
	"<":  {7, func(t ctype, a, b uint64) uint64 { return truth(less(t, a, b)) }, true},
	">":  {7, func(t ctype, a, b uint64) uint64 { return truth(less(t, b, a)) }, true},
	"<=": {7, func(t ctype, a, b uint64) uint64 { return truth(!less(t, b, a)) }, true},
	">=": {7, func(t ctype, a, b uint64) uint64 { return truth(!less(t, a, b)) }, true},
	"<<": {8, func(t ctype, a, b uint64) uint64 { return a << (b & uint64(t.bits-1)) }, false},
	">>": {8, shiftRight, false},
	"+":  {9, func(_ ctype, a, b uint64) uint64 { return a + b }, false},
	"-":  {9, func(_ ctype, a, b uint64) uint64 { return a - b }, false},
	"*":  {10, func(_ ctype, a, b uint64) uint64 { return a * b }, false},
	"/":  {10, func(t ctype, a, b uint64) uint64 { return divide(t, a, b, false) }, false},
	"%":  {10, func(t ctype, a, b uint64) uint64 { return divide(t, a, b, true) }, false},
}

func shiftRight(t ctype, a, b uint64) uint64 {
	b &= uint64(t.bits - 1)
	if t.signed {
		return uint64(int64(a) >> b)
	}
	return a >> b
}

// divide gives 0 where C gives up.
func divide(t ctype, a, b uint64, rest bool) uint64 {
	switch {
	case b == 0:
		return 0
	case t.signed && rest:
		return uint64(int64(a) % int64(b))
	case t.signed:
		return uint64(int64(a) / int64(b))
	case rest:
		return a % b
	}
	return a / b
}

// combine applies a binary operator.
func combine(name string, op operator, left, right value) (value, error) {
	if left.mem != nil && right.num != nil && name == "+" {
		mem, num, size := left.mem, right.num, uint64(left.typ.bits/8)
		return value{typ: left.typ, mem: func(e *Env) []byte { return skip(mem(e), num(e), size) }}, nil
	}
	if left.num == nil || right.num == nil {
		return value{}, fmt.Errorf("operator %s on an operand that is not a number", name)
	}
	in := common(left.typ, right.typ)
	if name == "<<" || name == ">>" {
		in = left.typ.promote()
	}
	out := in
	if op.truth {
		out = intType
	}
	a, b, compute := left.num, right.num, op.compute
	if left.constant && right.constant {
		return constant(compute(in, in.fit(left.k), in.fit(right.k)), out), nil
	}
	if right.constant {
		k := in.fit(right.k)
		switch name {
		case "&":
			return value{typ: out, num: func(e *Env) uint64 { return in.fit(a(e)) & k }}, nil
		case ">>":
			return value{typ: out, num: func(e *Env) uint64 { return shiftRight(in, in.fit(a(e)), k) }}, nil
		}
	}
	return value{typ: out, num: func(e *Env) uint64 {
		return out.fit(compute(in, in.fit(a(e)), in.fit(b(e))))
	}}, nil
}

// skip moves a pointer on by n elements.
func skip(mem []byte, n, size uint64) []byte {
	if mem == nil || n > uint64(len(mem)) || n*size > uint64(len(mem)) {
		return nil
	}
	return mem[n*size:]
}

// prefix applies a unary operator.
func prefix(name string, v value) (value, error) {
	if v.num == nil {
		return v, fmt.Errorf("operator %s on an operand that is not a number", name)
	}
	num, t := v.num, v.typ.promote()
	var out value
	switch name {
	case "-":
		out = value{typ: t, num: func(e *Env) uint64 { return t.fit(-t.fit(num(e))) }}
	case "~":
		out = value{typ: t, num: func(e *Env) uint64 { return t.fit(^t.fit(num(e))) }}
	case "!":
		out = value{typ: intType, num: func(e *Env) uint64 { return truth(num(e) == 0) }}
	default:
		out = value{typ: t, num: func(e *Env) uint64 { return t.fit(num(e)) }}
	}
	if v.constant {
		return constant(out.num(nil), out.typ), nil
	}
	return out, nil
}

// index returns one element of an array.
func index(v, at value) (value, error) {
	if v.mem == nil || at.num == nil {
		return v, errors.New("an index of a value that is not an array")
	}
	mem, num, t := v.mem, at.num, ctype{bits: v.typ.bits, signed: v.typ.signed}
	size := int(t.bits / 8)
	return value{typ: t, num: func(e *Env) uint64 {
		return e.number(skip(mem(e), num(e), uint64(size)), size, t.signed)
	}}, nil
}

// memory returns a pointer to a field.
func memory(f *format.Field) value {
	off := f.Offset
	return value{typ: elemType(f), mem: func(e *Env) []byte {
		if off > len(e.Record) {
			return nil
		}
		return e.Record[off:]
	}}
}

// elemType returns the type of an array's elements, bytes if they are no
// integers.
func elemType(f *format.Field) ctype {
	switch n := f.ElemSize(); n {
	case 1, 2, 4, 8:
		return ctype{bits: uint8(8 * n), signed: f.Signed}
	}
	return ctype{bits: 8, signed: f.Signed}
}

// fieldValue is "REC->NAME".
func (p *parser) fieldValue(f *format.Field) (value, error) {
	if f.Loc != format.Inline {
		return dynamicValue(f, p.elemOf(f)), nil
	}
	if f.Array {
		v := memory(f)
		if f.Len == 0 {
			v.typ = p.elemOf(f)
		} else if f.Size > 0 && v.typ.bits == 8 {
			// A string ends with its array.
			off, end := f.Offset, f.Offset+f.Size
			v.mem = func(e *Env) []byte {
				if off > len(e.Record) {
					return nil
				}
				return e.Record[off:min(end, len(e.Record))]
			}
		}
		return v, nil
	}
	switch f.Size {
	case 1, 2, 4, 8:
		read := &fieldRead{f.Offset, f.Size, f.Signed}
		t := ctype{bits: uint8(8 * f.Size), signed: f.Signed}
		return value{typ: t, num: func(e *Env) uint64 { return e.field(read) }, read: read}, nil
	}
	return memory(f), nil
}

// dynamicValue returns a pointer to the data of a __data_loc or __rel_loc
// field.
func dynamicValue(f *format.Field, elem ctype) value {
	off, relative := f.Offset, f.Loc == format.RelLoc
	return value{typ: elem, mem: func(e *Env) []byte {
		data, _ := e.dynamic(off, relative)
		return data
	}}
}

// elemOf returns the type of the elements of a flexible array, by its name.
func (p *parser) elemOf(f *format.Field) ctype {
	toks, err := tokens(f.Type)
	if err != nil {
		return ctype{bits: 8}
	}
	sub := parser{toks: toks, longBits: p.longBits}
	if t, _, ok := sub.typeName(0); ok {
		if t.pointer {
			return ctype{bits: p.longBits}
		}
		return t
	}
	return ctype{bits: 8}
}
