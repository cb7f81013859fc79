package printfmt

import "errors"

// typeBits has the sizes and signs of the types that print fmts name; a size of
// 0 means a long's.
var typeBits = map[string]ctype{
	"char": {bits: 8, signed: true}, "bool": {bits: 8}, "_Bool": {bits: 8}, "void": {bits: 8},
	"u8": {bits: 8}, "__u8": {bits: 8}, "uint8_t": {bits: 8},
	"s8": {bits: 8, signed: true}, "__s8": {bits: 8, signed: true}, "int8_t": {bits: 8, signed: true},
	"u16": {bits: 16}, "__u16": {bits: 16}, "uint16_t": {bits: 16}, "__le16": {bits: 16}, "__be16": {bits: 16},
	"s16": {bits: 16, signed: true}, "__s16": {bits: 16, signed: true}, "int16_t": {bits: 16, signed: true},
	"umode_t": {bits: 16}, "sa_family_t": {bits: 16},
	"u32": {bits: 32}, "__u32": {bits: 32}, "uint32_t": {bits: 32}, "__le32": {bits: 32}, "__be32": {bits: 32},
	"s32": {bits: 32, signed: true}, "__s32": {bits: 32, signed: true}, "int32_t": {bits: 32, signed: true},
	"uint": {bits: 32}, "gfp_t": {bits: 32}, "fmode_t": {bits: 32}, "slab_flags_t": {bits: 32}, "dev_t": {bits: 32},
	"pid_t": {bits: 32, signed: true}, "uid_t": {bits: 32}, "gid_t": {bits: 32}, "blk_opf_t": {bits: 32},
	"isolate_mode_t": {bits: 32}, "__kernel_rwf_t": {bits: 32, signed: true}, "vm_fault_t": {bits: 32}, "xfs_exntst_t": {bits: 32, signed: true},
	"u64": {bits: 64}, "__u64": {bits: 64}, "uint64_t": {bits: 64}, "__le64": {bits: 64}, "__be64": {bits: 64},
	"s64": {bits: 64, signed: true}, "__s64": {bits: 64, signed: true}, "int64_t": {bits: 64, signed: true},
	"sector_t": {bits: 64}, "loff_t": {bits: 64, signed: true}, "ktime_t": {bits: 64, signed: true},
	"phys_addr_t": {bits: 64}, "dma_addr_t": {bits: 64}, "blkcnt_t": {bits: 64},
	"size_t": {}, "ssize_t": {signed: true}, "uintptr_t": {}, "ino_t": {}, "pgoff_t": {},
}

// qualifiers say nothing about the size.
var qualifiers = map[string]bool{"const": true, "volatile": true, "__force": true, "__user": true, "__kernel": true}

// typeName reads a type at token i, pointers included, and returns where it
// ends.
func (p *parser) typeName(i int) (t ctype, end int, ok bool) {
	long, short, unsigned, signed, named := 0, false, false, false, false
	t = ctype{bits: 32, signed: true}
words:
	for ; i < len(p.toks) && p.toks[i].kind == tokName; i++ {
		switch word := p.toks[i].text; word {
		case "unsigned":
			unsigned = true
		case "signed":
			signed = true
		case "long":
			long++
		case "short":
			short = true
		case "int":
		case "struct", "union":
			// Only pointers to structures can be had, as plain memory.
			if i+1 < len(p.toks) && p.toks[i+1].kind == tokName {
				i++
			}
			t = ctype{bits: 8}
			named = true
		case "enum":
			i++
			t = ctype{bits: 32}
		default:
			if qualifiers[word] {
				continue
			}
			known, found := typeBits[word]
			if !found || ok {
				break words
			}
			if t = known; t.bits == 0 {
				t.bits = p.longBits
			}
		}
		ok = true
	}
	switch {
	case !ok:
		return t, i, false
	case long == 1:
		t = ctype{bits: p.longBits, signed: true}
	case long > 1:
		t = ctype{bits: 64, signed: true}
	case short:
		t = ctype{bits: 16, signed: true}
	}
	if unsigned {
		t.signed = false
	} else if signed {
		t.signed = true
	}
	depth := 0
	for ; i < len(p.toks); i++ {
		if p.toks[i].text == "*" && p.toks[i].kind == tokPunct {
			depth++
		} else if !qualifiers[p.toks[i].text] {
			break
		}
	}
	switch {
	case depth > 1:
		t = ctype{bits: p.longBits, pointer: true}
	case depth == 1:
		t.pointer = true
	case named:
		return t, i, false
	}
	return t, i, true
}

// castType reads "TYPE)" at token i.
func (p *parser) castType(i int) (t ctype, end int, ok bool) {
	t, i, ok = p.typeName(i)
	if !ok || i >= len(p.toks) || p.toks[i].kind != tokPunct || p.toks[i].text != ")" {
		return t, i, false
	}
	return t, i + 1, true
}

// cast converts a value.
func cast(v value, t ctype) (value, error) {
	switch {
	case v.num != nil && t.pointer:
		// A number that is an address: of no memory that is here.
		v.typ = ctype{bits: 64}
		v.read = nil
		return v, nil
	case v.num != nil && v.constant:
		return constant(v.k, t), nil
	case v.num != nil:
		num, read := v.num, v.read
		out := value{typ: t, num: func(e *Env) uint64 { return t.fit(num(e)) }}
		if read != nil && (int(t.bits) == 8*read.size && t.signed == read.signed || int(t.bits) > 8*read.size && (t.signed || !read.signed)) {
			out.num, out.read = num, read
		}
		return out, nil
	case v.mem != nil && t.pointer:
		v.typ = ctype{bits: t.bits, signed: t.signed}
		return v, nil
	case v.str != nil && t.pointer:
		return v, nil
	}
	return v, errors.New("an unknown cast")
}

// sizeOf reads what stands in sizeof().
func (p *parser) sizeOf() (value, error) {
	long := ctype{bits: p.longBits}
	if t, n, ok := p.typeName(p.pos); ok {
		p.pos = n
		if t.pointer {
			t.bits = p.longBits
		}
		return constant(uint64(t.bits)/8, long), nil
	}
	f, err := p.recField()
	if err != nil {
		return value{}, err
	}
	return constant(uint64(f.Size), long), nil
}
