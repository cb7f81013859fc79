package printfmt

import (
	"errors"
	"fmt"
	"math/bits"

	"ustack/tracefs/format"
)

// constants are names that format files leave unexpanded.
var constants = map[string]uint64{
	"true": 1, "false": 0, "NULL": 0,
	// include/uapi/linux/ioprio.h
	"IOPRIO_CLASS_NONE": 0, "IOPRIO_CLASS_RT": 1, "IOPRIO_CLASS_BE": 2, "IOPRIO_CLASS_IDLE": 3, "IOPRIO_CLASS_INVALID": 7,
	// include/net/tcp_states.h
	"TCP_ESTABLISHED": 1, "TCP_SYN_SENT": 2, "TCP_SYN_RECV": 3, "TCP_FIN_WAIT1": 4, "TCP_FIN_WAIT2": 5, "TCP_TIME_WAIT": 6,
	"TCP_CLOSE": 7, "TCP_CLOSE_WAIT": 8, "TCP_LAST_ACK": 9, "TCP_LISTEN": 10, "TCP_CLOSING": 11, "TCP_NEW_SYN_RECV": 12,
	// include/linux/hrtimer.h: relative 1, pinned 2, soft 4, hard 8
	"HRTIMER_MODE_ABS": 0, "HRTIMER_MODE_REL": 1, "HRTIMER_MODE_ABS_PINNED": 2, "HRTIMER_MODE_REL_PINNED": 3,
	"HRTIMER_MODE_ABS_SOFT": 4, "HRTIMER_MODE_REL_SOFT": 5, "HRTIMER_MODE_ABS_PINNED_SOFT": 6, "HRTIMER_MODE_REL_PINNED_SOFT": 7,
	"HRTIMER_MODE_ABS_HARD": 8, "HRTIMER_MODE_REL_HARD": 9, "HRTIMER_MODE_ABS_PINNED_HARD": 10, "HRTIMER_MODE_REL_PINNED_HARD": 11,
}

// calls returns the macros that a print fmt can call: the ones in
// include/trace/stages/stage3_trace_output.h, and a few of the kernel's that
// are left unexpanded. Each reads its arguments up to the closing bracket.
func calls(name string) (read func(*parser) (value, error), ok bool) {
	read, ok = map[string]func(*parser) (value, error){
		"__get_str":                   (*parser).dynamicPointer,
		"__get_rel_str":               (*parser).dynamicPointer,
		"__get_dynamic_array":         (*parser).dynamicPointer,
		"__get_rel_dynamic_array":     (*parser).dynamicPointer,
		"__get_sockaddr":              (*parser).dynamicPointer,
		"__get_rel_sockaddr":          (*parser).dynamicPointer,
		"__get_dynamic_array_len":     (*parser).dynamicLength,
		"__get_rel_dynamic_array_len": (*parser).dynamicLength,
		"__get_bitmask":               (*parser).bitmask,
		"__get_rel_bitmask":           (*parser).bitmask,
		"__get_cpumask":               (*parser).bitmask,
		"__get_rel_cpumask":           (*parser).bitmask,
		"__print_flags":               (*parser).printFlags,
		"__print_flags_u64":           (*parser).printFlags,
		"__print_symbolic":            (*parser).printSymbolic,
		"__print_symbolic_u64":        (*parser).printSymbolic,
		"__print_hex":                 func(p *parser) (value, error) { return p.printHex(" ") },
		"__print_hex_str":             func(p *parser) (value, error) { return p.printHex("") },
		"__print_array":               (*parser).printArray,
		"__print_dynamic_array":       (*parser).printDynamicArray,
		"__print_ns_to_secs":          func(p *parser) (value, error) { return p.computed(64, func(v uint64) uint64 { return v / 1e9 }) },
		"__print_ns_without_secs":     func(p *parser) (value, error) { return p.computed(32, func(v uint64) uint64 { return v % 1e9 }) },
		"__event_in_hardirq":          func(p *parser) (value, error) { return p.inIRQ(flagHardIRQ) },
		"__event_in_softirq":          func(p *parser) (value, error) { return p.inIRQ(flagSoftIRQ) },
		"__event_in_irq":              func(p *parser) (value, error) { return p.inIRQ(flagHardIRQ | flagSoftIRQ) },
		"sizeof":                      (*parser).sizeOf,
		"__builtin_expect":            (*parser).firstOfTwo,
		"MAJOR":                       func(p *parser) (value, error) { return p.computed(32, func(v uint64) uint64 { return v >> 20 }) },
		"MINOR": func(p *parser) (value, error) {
			return p.computed(32, func(v uint64) uint64 { return v & (1<<20 - 1) })
		},
		"__fswab16":         func(p *parser) (value, error) { return p.computed(16, swap16) },
		"__fswab32":         func(p *parser) (value, error) { return p.computed(32, swap32) },
		"__fswab64":         func(p *parser) (value, error) { return p.computed(64, bits.ReverseBytes64) },
		"__builtin_bswap16": func(p *parser) (value, error) { return p.computed(16, swap16) },
		"__builtin_bswap32": func(p *parser) (value, error) { return p.computed(32, swap32) },
		"__builtin_bswap64": func(p *parser) (value, error) { return p.computed(64, bits.ReverseBytes64) },
	}[name]
	return read, ok
}

// Bits of common_flags (enum trace_flag_type in include/linux/trace_events.h).
const (
	flagHardIRQ = 0x08
	flagSoftIRQ = 0x10
)

func swap16(v uint64) uint64 { return uint64(bits.ReverseBytes16(uint16(v))) }
func swap32(v uint64) uint64 { return uint64(bits.ReverseBytes32(uint32(v))) }

// computed compiles a call of f with one number.
func (p *parser) computed(size uint8, f func(uint64) uint64) (value, error) {
	v, err := p.expr()
	if err != nil {
		return v, err
	}
	if v.num == nil {
		return v, errors.New("an argument that is no number")
	}
	num, t := v.num, ctype{bits: size}
	return value{typ: t, num: func(e *Env) uint64 { return t.fit(f(num(e))) }}, nil
}

func (p *parser) firstOfTwo() (value, error) {
	args, err := p.args(2)
	if err != nil {
		return value{}, err
	}
	return args[0], nil
}

// inIRQ looks at the flags that every record has.
func (p *parser) inIRQ(mask uint64) (value, error) {
	f, err := p.field("common_flags")
	if err != nil {
		return value{}, err
	}
	read := &fieldRead{f.Offset, 1, false}
	return value{typ: intType, num: func(e *Env) uint64 { return e.field(read) & mask }}, nil
}

// dynamicField reads the name of a __data_loc or __rel_loc field, which some
// events spell as REC->__data_loc_NAME.
func (p *parser) dynamicField() (*format.Field, error) {
	if p.peek().text == "REC" {
		p.pos++
		if err := p.want("->"); err != nil {
			return nil, err
		}
	}
	name := p.peek().text
	p.pos++
	for _, mark := range [...]string{"__data_loc_", "__rel_loc_"} {
		if len(name) > len(mark) && name[:len(mark)] == mark {
			name = name[len(mark):]
		}
	}
	f := p.event.Field(name)
	if f == nil || f.Loc == format.Inline {
		return nil, fmt.Errorf("no dynamic field %.40q", name)
	}
	return f, nil
}

func (p *parser) dynamicPointer() (value, error) {
	f, err := p.dynamicField()
	if err != nil {
		return value{}, err
	}
	return dynamicValue(f, p.elemOf(f)), nil
}

func (p *parser) dynamicLength() (value, error) {
	f, err := p.dynamicField()
	if err != nil {
		return value{}, err
	}
	off, relative := f.Offset, f.Loc == format.RelLoc
	return value{typ: intType, num: func(e *Env) uint64 {
		_, n := e.dynamic(off, relative)
		return uint64(n)
	}}, nil
}

// bitmask prints a bitmap (trace_print_bitmask_seq, by default as "%*pb").
func (p *parser) bitmask() (value, error) {
	f, err := p.dynamicField()
	if err != nil {
		return value{}, err
	}
	off, relative := f.Offset, f.Loc == format.RelLoc
	return value{str: func(e *Env, b []byte) []byte {
		data, n := e.dynamic(off, relative)
		return e.appendBitmap(b, data, 8*n)
	}}, nil
}

// printHex is __print_hex and __print_hex_str: bytes, two digits each.
func (p *parser) printHex(between string) (value, error) {
	args, err := p.args(2)
	if err != nil {
		return value{}, err
	}
	if args[0].mem == nil || args[1].num == nil {
		return value{}, errors.New("no memory and length")
	}
	mem, num := args[0].mem, args[1].num
	return value{str: func(e *Env, b []byte) []byte {
		data := mem(e)
		n := int(min(uint64(len(data)), uint64(max(0, int32(num(e))))))
		return appendHexBytes(b, data[:n], between)
	}}, nil
}

// printArray is __print_array(array, count, size of an element).
func (p *parser) printArray() (value, error) {
	args, err := p.args(3)
	if err != nil {
		return value{}, err
	}
	if args[0].mem == nil || args[1].num == nil || !args[2].constant {
		return value{}, errors.New("no array, count and size")
	}
	mem, count, size := args[0].mem, args[1].num, int(args[2].k)
	return arrayValue(size, func(e *Env) ([]byte, int) { return mem(e), int(int32(count(e))) })
}

func (p *parser) printDynamicArray() (value, error) {
	f, err := p.dynamicField()
	if err != nil {
		return value{}, err
	}
	if err := p.want(","); err != nil {
		return value{}, err
	}
	elem, err := p.expr()
	if err != nil || !elem.constant || elem.k == 0 {
		return value{}, errors.Join(err, errors.New("no size"))
	}
	off, relative, size := f.Offset, f.Loc == format.RelLoc, int(elem.k)
	return arrayValue(size, func(e *Env) ([]byte, int) {
		data, n := e.dynamic(off, relative)
		return data, n / size
	})
}

// arrayValue prints numbers as "{0x1,0x2}" (trace_print_array_seq).
func arrayValue(size int, get func(*Env) ([]byte, int)) (value, error) {
	if size != 1 && size != 2 && size != 4 && size != 8 {
		return value{}, fmt.Errorf("elements of %d bytes", size)
	}
	return value{str: func(e *Env, b []byte) []byte {
		data, n := get(e)
		b = append(b, '{')
		for i := 0; i < n && len(data) >= size; i++ {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendHex(append(b, "0x"...), e.number(data, size, false))
			data = data[size:]
		}
		return append(b, '}')
	}}, nil
}

// named is one pair of __print_flags and __print_symbolic.
type named struct {
	mask uint64
	name string
}

// pairs reads "{ MASK, NAME }, …" up to the call's bracket.
func (p *parser) pairs() ([]named, error) {
	var out []named
	ended := false
	for !p.is(")") {
		if err := p.want("{"); err != nil {
			return nil, err
		}
		if p.take("}") { // an empty list
			p.take(",")
			continue
		}
		mask, err := p.expr()
		if err != nil {
			return nil, err
		}
		if err := p.want(","); err != nil {
			return nil, err
		}
		name, err := p.expr()
		if err != nil {
			return nil, err
		}
		if !mask.constant || !name.isConst && !name.constant {
			return nil, errors.New("a pair that is no number and name")
		}
		if name.constant {
			ended = true // { -1, NULL }: whatever follows does not count
		}
		if !ended {
			out = append(out, named{mask.k, name.text})
		}
		if err := p.want("}"); err != nil {
			return nil, err
		}
		if !p.take(",") && !p.is(")") {
			return nil, fmt.Errorf("%q between pairs", p.peek().text)
		}
	}
	return out, nil
}

// printFlags is trace_print_flags_seq, its habits with masks of 0 included.
func (p *parser) printFlags() (value, error) {
	flags, err := p.longNumber()
	if err != nil {
		return value{}, err
	}
	delim := p.peek()
	p.pos++
	if delim.kind != tokString && !(delim.kind == tokName && delim.text == "NULL") {
		return value{}, errors.New("no delimiter")
	}
	if delim.kind != tokString {
		delim.text = ""
	}
	if !p.take(",") && !p.is(")") {
		return value{}, errors.New("no list after the delimiter")
	}
	list, err := p.pairs()
	if err != nil {
		return value{}, err
	}
	return value{str: func(e *Env, b []byte) []byte {
		left := flags(e)
		first := true
		for _, f := range list {
			if left == 0 {
				break
			}
			if left&f.mask != f.mask {
				continue
			}
			left &^= f.mask
			if !first {
				b = append(b, delim.text...)
			}
			first = false
			b = append(b, f.name...)
		}
		if left != 0 {
			if !first {
				b = append(b, delim.text...)
			}
			b = appendHex(append(b, "0x"...), left)
		}
		return b
	}}, nil
}

// printSymbolic is trace_print_symbols_seq.
func (p *parser) printSymbolic() (value, error) {
	num, err := p.longNumber()
	if err != nil {
		return value{}, err
	}
	list, err := p.pairs()
	if err != nil {
		return value{}, err
	}
	return value{str: func(e *Env, b []byte) []byte {
		v := num(e)
		for _, s := range list {
			if s.mask == v && s.name != "" {
				return append(b, s.name...)
			}
		}
		return appendHex(append(b, "0x"...), v)
	}}, nil
}

// longNumber reads the first argument of the two above, and its comma.
func (p *parser) longNumber() (func(*Env) uint64, error) {
	v, err := p.expr()
	if err != nil {
		return nil, err
	}
	if v.num == nil {
		return nil, errors.New("a value that is no number")
	}
	if !p.take(",") && !p.is(")") {
		return nil, fmt.Errorf("%q after the value", p.peek().text)
	}
	return v.num, nil
}
